#!/usr/bin/env bash
# A real Kubernetes of one node for the tests, without systemd, on Debian as root.
#
#   kube.sh build        what a cluster needs, into .cache/kube/<version>; the first
#                        time this compiles Kubernetes (800 seconds of a processor)
#   kube.sh start DIR    build, then start a cluster whose state is below DIR
#   kube.sh stop DIR     end the cluster that start put into DIR, with all its pods
#   kube.sh image DIR NAME PROGRAM
#                        give it an image of a shell, its tools and a static program,
#                        which is its entry point
#
# Nothing is installed: Debian's packages are unpacked, and Kubernetes and etcd come from
# Go's module proxy. DIR/admin.kubeconfig is for who may do everything.
#
# Pods reach nothing, as where a policy denies all: their interface is down. Those of the
# runtime class "open" reach each other and the node.
set -euo pipefail
cd "$(dirname "$0")/.."

kubernetes=1.36.3
etcd=3.6.16

cache=$PWD/.cache/kube
home=$cache/$kubernetes-$etcd
bin=$home/bin
debian=$home/debian

say() { printf 'kube: %s\n' "$*" >&2; }

# replaced FILE: the module's own modules, which its go.mod takes from directories beside it.
replaced() {
	sed -nE 's#^(replace )?[[:space:]]*([a-z0-9./-]+) => \.\.?/.*#\2#p' "$1"
}

# new_module DIR MODULE VERSION: an empty module that requires this one as its authors build it.
new_module() {
	local gomod
	rm -rf "$1"
	mkdir -p "$1"
	cd "$1"
	gomod=$(go mod download -json "$2@v$3" | sed -n 's/^\t"GoMod": "\(.*\)",$/\1/p')
	go mod init build 2>/dev/null
	go mod edit -go="$(awk '$1 == "go" { print $2 }' "$gomod")" -require="$2@v$3"
	printf '%s\n' "$gomod"
}

# program NAME PACKAGE [LDFLAGS]
program() {
	[ -x "$bin/$1" ] && return 0
	say "building $1"
	CGO_ENABLED=0 GOFLAGS='-mod=mod -buildvcs=false' go build -trimpath -ldflags "-s -w ${3:-}" -o "$bin/$1.new" "$2"
	mv "$bin/$1.new" "$bin/$1"
}

build_etcd() (
	[ -x "$bin/etcd" ] && return 0
	new_module "$home/module/etcd" go.etcd.io/etcd/server/v3 "$etcd" >/dev/null
	program etcd go.etcd.io/etcd/server/v3
)

build_kubernetes() (
	local programs=(kube-apiserver kubelet kube-controller-manager kube-scheduler) name gomod module
	for name in "${programs[@]}"; do
		[ -x "$bin/$name" ] || break
	done
	[ -x "$bin/$name" ] && return 0
	gomod=$(new_module "$home/module/kubernetes" k8s.io/kubernetes "$kubernetes")
	cd "$home/module/kubernetes"
	for module in $(replaced "$gomod"); do
		go mod edit -replace="$module=$module@v0${kubernetes#1}"
	done
	for name in "${programs[@]}"; do
		program "$name" "k8s.io/kubernetes/cmd/$name" "-X k8s.io/component-base/version.gitVersion=v$kubernetes \
			-X k8s.io/component-base/version.gitMajor=${kubernetes%%.*} \
			-X k8s.io/component-base/version.gitMinor=$(cut -d. -f2 <<<"$kubernetes")"
	done
)

unpack_debian() (
	[ -e "$debian/.unpacked" ] && return 0
	say "unpacking Debian's containerd, runc and network plugins"
	rm -rf "$debian"
	mkdir -p "$debian/packages"
	cd "$debian/packages"
	apt-get update -q >&2
	apt-get download -q containerd runc containernetworking-plugins busybox-static >&2
	for package in *.deb; do
		dpkg-deb -x "$package" "$debian"
	done
	touch "$debian/.unpacked"
)

build() {
	mkdir -p "$bin"
	exec 9>"$cache/lock"
	flock 9
	unpack_debian
	build_etcd
	build_kubernetes
	exec 9>&-
}


# What is the machine's, and not below DIR: one cluster at a time.
port=16443
node=10.90.44.1
bridges=(ralph-node ralph-open ralph-shut)
cgroup=ralph-kube

# daemon NAME COMMAND…: in a session of its own, by the pid that it is ended by.
daemon() {
	local name=$1
	shift
	setsid "$@" >"$dir/$name.log" 2>&1 </dev/null 9>&- &
	echo $! >"$dir/$name.pid"
}

# lives NAME
lives() { kill -0 "$(cat "$dir/$1.pid" 2>/dev/null || echo 0x)" 2>/dev/null; }

# until_ok NAME COMMAND…: waits for the command, while the daemon of that name lives.
until_ok() {
	local name=$1
	shift
	until "$@" >/dev/null 2>&1; do
		lives "$name" || {
			say "$name ended; the end of $dir/$name.log:"
			tail -n 5 "$dir/$name.log" >&2
			return 1
		}
		sleep 0.1
	done
}

containerctl() { "$debian/usr/bin/ctr" -a "$dir/containerd.sock" -n k8s.io "$@"; }
api() { curl -sf -k -m 5 -H "Authorization: Bearer $(cat "$dir/admin.token")" "https://$node:$port$1"; }

start() {
	[ "$(id -u)" = 0 ] || {
		say "only root can start a cluster"
		return 1
	}
	for bridge in "${bridges[@]}"; do
		if [ -e "/sys/class/net/$bridge" ]; then
			say "a cluster of another directory runs (or was left behind) on this machine: there is a bridge $bridge"
			return 1
		fi
	done
	build
	mkdir -p "$dir"/{certificates,etcd,network-open,network-shut,plugins,pods,logs}
	chmod 0711 "$dir"
	trap 'stop' ERR
	set -E
	openssl ecparam -genkey -name prime256v1 -noout -out "$dir/accounts.key" 2>/dev/null
	openssl ec -in "$dir/accounts.key" -pubout -out "$dir/accounts.pub" 2>/dev/null
	local who token
	: >"$dir/tokens.csv"
	chmod 0600 "$dir/tokens.csv"
	for who in admin,admin,1,system:masters manager,system:kube-controller-manager,2,system:masters \
		"scheduler,system:kube-scheduler,3," node,system:node:node,4,system:nodes; do
		token=$(openssl rand -hex 16)
		printf '%s,%s\n' "$token" "${who#*,}" >>"$dir/tokens.csv"
		printf '%s' "$token" >"$dir/${who%%,*}.token"
		cat >"$dir/${who%%,*}.kubeconfig" <<-E
			apiVersion: v1
			kind: Config
			clusters: [{name: c, cluster: {server: "https://$node:$port", insecure-skip-tls-verify: true}}]
			users: [{name: u, user: {token: "$token"}}]
			contexts: [{name: x, context: {cluster: c, user: u}}]
			current-context: x
		E
	done
	# A node needs an address that is not loopback; a bridge without ports holds one.
	ip link add ralph-node type bridge
	ip addr replace "$node/32" dev ralph-node
	ip link set ralph-node up
	start_control
	start_node
	say "started Kubernetes $kubernetes in $dir"
}

start_control() {
	daemon etcd "$bin/etcd" --data-dir "$dir/etcd" --unsafe-no-fsync --log-level warn \
		--listen-client-urls http://127.0.0.1:16379 --advertise-client-urls http://127.0.0.1:16379 \
		--listen-peer-urls http://127.0.0.1:16380 --initial-advertise-peer-urls http://127.0.0.1:16380 \
		--initial-cluster default=http://127.0.0.1:16380
	daemon apiserver "$bin/kube-apiserver" --etcd-servers http://127.0.0.1:16379 --secure-port $port --bind-address "$node" \
		--cert-dir "$dir/certificates" --token-auth-file "$dir/tokens.csv" --kubelet-preferred-address-types InternalIP \
		--authorization-mode Node,RBAC --enable-admission-plugins NodeRestriction --allow-privileged=false --profiling=false \
		--service-account-issuer https://kubernetes.test --service-account-key-file "$dir/accounts.pub" \
		--service-account-signing-key-file "$dir/accounts.key" --service-cluster-ip-range 10.91.44.0/24
	until_ok apiserver api /readyz
	daemon manager "$bin/kube-controller-manager" --kubeconfig "$dir/manager.kubeconfig" --leader-elect=false --secure-port 0 \
		--service-account-private-key-file "$dir/accounts.key" --use-service-account-credentials=false \
		--controllers serviceaccount-controller,namespace-controller,garbage-collector-controller,pod-garbage-collector-controller,node-lifecycle-controller,taint-eviction-controller,resourcequota-controller
	daemon scheduler "$bin/kube-scheduler" --kubeconfig "$dir/scheduler.kubeconfig" --leader-elect=false --secure-port 0 \
		--authentication-kubeconfig "$dir/scheduler.kubeconfig" --authorization-kubeconfig "$dir/scheduler.kubeconfig"
}

start_node() {
	local class
	cp "$debian"/usr/lib/cni/{bridge,host-local,loopback} "$dir/plugins/"
	cat >"$dir/plugins/shut" <<-'E'
		#!/bin/sh
		# The plugin "bridge", which shuts the interface that it has made.
		sed 's/"type":"shut"/"type":"bridge"/' | "${0%/*}/bridge" || exit
		[ "$CNI_COMMAND" != ADD ] || nsenter --net="$CNI_NETNS" ip link set "$CNI_IFNAME" down >&2
	E
	chmod +x "$dir/plugins/shut"
	local bridge='"isGateway":true,"ipMasq":false,"ipam":{"type":"host-local","dataDir":"'$dir/addresses'"'
	cat >"$dir/network-open/10.conflist" <<-E
		{"cniVersion":"0.4.0","name":"open","plugins":[{"type":"bridge","bridge":"ralph-open",$bridge,
			"ranges":[[{"subnet":"10.92.44.0/24"}]],"routes":[{"dst":"0.0.0.0/0"}]}}]}
	E
	cat >"$dir/network-shut/10.conflist" <<-E
		{"cniVersion":"0.4.0","name":"shut","plugins":[{"type":"shut","bridge":"ralph-shut",$bridge,
			"ranges":[[{"subnet":"10.92.45.0/24"}]]}}]}
	E
	cat >"$dir/containerd.toml" <<-E
		version = 2
		root = "$dir/containerd"
		state = "$dir/containerd-state"
		oom_score = 0
		disabled_plugins = ["io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
			"io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs",
			"io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing"]
		[grpc]
		  address = "$dir/containerd.sock"
		[plugins."io.containerd.grpc.v1.cri"]
		  sandbox_image = "test.local/pause:1"
		  disable_apparmor = true
		  # This machine may lack the right to lower it.
		  restrict_oom_score_adj = true
		[plugins."io.containerd.grpc.v1.cri".cni]
		  bin_dir = "$dir/plugins"
		  conf_dir = "$dir/network-shut"
		[plugins."io.containerd.grpc.v1.cri".containerd]
		  snapshotter = "overlayfs"
		  default_runtime_name = "shut"
	E
	for class in shut open; do
		cat >>"$dir/containerd.toml" <<-E
			[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.$class]
			  runtime_type = "io.containerd.runc.v2"
			  cni_conf_dir = "$dir/network-$class"
			[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.$class.options]
			  SystemdCgroup = false
			  BinaryName = "$debian/usr/sbin/runc"
		E
	done
	PATH=$debian/usr/bin:$debian/usr/sbin:$PATH daemon containerd "$debian/usr/bin/containerd" -c "$dir/containerd.toml"
	until_ok containerd containerctl version
	image test.local/pause:1 "$debian/bin/busybox" '["/bin/busybox","sleep","2147483647"]'
	# cgroup v1: the root of pods has to be there in every hierarchy.
	local hierarchy
	for hierarchy in /sys/fs/cgroup/ /sys/fs/cgroup/*/; do
		[ ! -f "$hierarchy/cgroup.procs" ] || mkdir -p "$hierarchy/$cgroup"
	done
	cat >"$dir/kubelet.yaml" <<-E
		apiVersion: kubelet.config.k8s.io/v1beta1
		kind: KubeletConfiguration
		address: $node
		port: 16250
		healthzPort: 0
		readOnlyPort: 0
		authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
		authorization: {mode: AlwaysAllow}
		containerRuntimeEndpoint: unix://$dir/containerd.sock
		cgroupDriver: cgroupfs
		cgroupRoot: /$cgroup
		cgroupsPerQOS: true
		enforceNodeAllocatable: []
		failCgroupV1: false
		failSwapOn: false
		protectKernelDefaults: false
		makeIPTablesUtilChains: false
		podLogsDir: $dir/logs
		podPidsLimit: 512
		evictionHard: {memory.available: 100Mi, nodefs.available: 1Gi, imagefs.available: 1Gi}
		imageGCHighThresholdPercent: 100
		maxPods: 60
		resolvConf: ""
	E
	daemon kubelet "$bin/kubelet" --config "$dir/kubelet.yaml" --kubeconfig "$dir/node.kubeconfig" --hostname-override node \
		--node-ip "$node" --root-dir "$dir/pods" --cert-dir "$dir/pods/pki" -v 1
	until_ok kubelet node_ready
}

node_ready() { api /api/v1/nodes/node | tr -d ' \n' | grep -q '"status":"True",[^}]*"reason":"KubeletReady"'; }

# image NAME PROGRAM [ENTRYPOINT]
image() {
	local work applet layer
	work=$(mktemp -d "$dir/image.XXXXXX")
	mkdir -p "$work"/root/{bin,etc,tmp,usr/local/bin} "$work/image"
	cp "$debian/bin/busybox" "$work/root/bin/busybox"
	for applet in $("$debian/bin/busybox" --list); do
		[ "$applet" = busybox ] || ln -s busybox "$work/root/bin/$applet"
	done
	cp "$2" "$work/root/usr/local/bin/program"
	printf 'root:x:0:0::/:/bin/false\nagent:x:1000:1000::/home/agent:/bin/sh\n' >"$work/root/etc/passwd"
	tar --owner=0 --group=0 --mtime=@0 -C "$work/root" -cf "$work/image/layer.tar" .
	layer=$(sha256sum "$work/image/layer.tar" | cut -d' ' -f1)
	printf '{"architecture":"%s","os":"linux","config":{"Entrypoint":%s},"rootfs":{"type":"layers","diff_ids":["sha256:%s"]}}' \
		"$(go env GOARCH)" "${3:-[\"/usr/local/bin/program\"]}" "$layer" >"$work/image/config.json"
	printf '[{"Config":"config.json","RepoTags":["%s"],"Layers":["layer.tar"]}]' "$1" >"$work/image/manifest.json"
	tar -C "$work/image" -c manifest.json config.json layer.tar | containerctl images import - >/dev/null
	rm -rf "$work"
}

# ended NAME: once it has, by a request, or within ten seconds by force.
ended() {
	local pid tries=0
	pid=$(cat "$dir/$1.pid" 2>/dev/null) || return 0
	kill "$pid" 2>/dev/null || true
	while kill -0 "$pid" 2>/dev/null; do
		tries=$((tries + 1))
		[ "$tries" != 100 ] || kill -9 "$pid" 2>/dev/null || true
		sleep 0.1
	done
	rm -f "$dir/$1.pid"
}

# Ends what start has started, as far as it came.
stop() {
	trap - ERR
	set +e
	local id pid mount bridge hierarchy namespaces=
	ended kubelet
	if lives containerd; then
		namespaces=$(for id in $(containerctl containers ls -q); do containerctl containers info "$id"; done |
			grep -o '/run/netns/cni-[0-9a-f-]*' | sed 's,.*/,,' | sort -u)
		for id in $(containerctl tasks ls -q); do containerctl tasks kill -s 9 "$id" 2>/dev/null; done
		for id in $(containerctl tasks ls -q); do containerctl tasks rm -f "$id" >/dev/null 2>&1; done
		for id in $(containerctl containers ls -q); do containerctl containers rm "$id" >/dev/null 2>&1; done
	fi
	for id in scheduler manager apiserver etcd containerd; do ended "$id"; done
	# What is left of containers: by the address of our containerd.
	for pid in /proc/[0-9]*; do
		if { tr '\0' '\n' <"$pid/cmdline"; } 2>/dev/null | grep -qxF -- "$dir/containerd.sock"; then
			kill -9 "${pid#/proc/}" 2>/dev/null
		fi
	done
	awk -v dir="$dir/" 'index($2, dir) == 1 { print $2 }' /proc/mounts | sort -r |
		while read -r mount; do umount -l "$mount"; done
	for id in $namespaces; do [ ! -e "/run/netns/$id" ] || ip netns del "$id"; done
	for bridge in "${bridges[@]}"; do ip link del "$bridge" 2>/dev/null; done
	for hierarchy in /sys/fs/cgroup/"$cgroup" /sys/fs/cgroup/*/"$cgroup"; do
		[ ! -d "$hierarchy" ] || find "$hierarchy" -depth -type d -exec rmdir {} \;
	done
	rm -rf "$dir"
	say "stopped the cluster of $dir"
	set -e
}

absolute() { case $1 in /*) dir=$1 ;; *) dir=$OLDPWD/$1 ;; esac; }

case ${1:-}:$# in
build:1) build ;;
start:2)
	absolute "$2"
	start
	;;
stop:2)
	absolute "$2"
	stop
	;;
image:4)
	absolute "$2"
	image "$3" "$4"
	;;
*)
	say "usage: kube.sh build | start DIR | stop DIR | image DIR NAME PROGRAM"
	exit 2
	;;
esac
