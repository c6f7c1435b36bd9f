#!/bin/sh
# A Docker engine for the tests.
#
#   docker-engine.sh start DIR    use the engine that runs, or start our own
#   docker-engine.sh stop DIR     end the engine that start put into DIR, if any
#   docker-engine.sh status DIR   say which of the two it is; exit 1 for none
#
# start prints one line, DOCKER_HOST=…, for the caller to eval; all else goes
# to stderr. A running engine is found as the docker CLI finds it (DOCKER_HOST,
# context, default socket). Without one, on Debian as root, docker.io is
# installed from Debian's packages and dockerd started with its data, its exec
# root, pid file and log below DIR; its socket is the default one where that is
# free. Anywhere else start says what is missing and exits 1.
set -eu

say() { printf '%s\n' "docker-engine: $*" >&2; }

default_socket=/var/run/docker.sock

# The CLI may be a newer one than Debian's; either can ask for the version.
engine_version() {
	DOCKER_HOST=$1 docker version --format '{{.Server.Version}}' 2>/dev/null
}

# Prints the address of an engine that answers, or fails.
running_engine() {
	command -v docker >/dev/null 2>&1 || return 1
	if [ -n "${DOCKER_HOST:-}" ]; then
		host=$DOCKER_HOST
	else
		# The Go client knows nothing of the CLI's contexts, so that the
		# address has to be taken out of the current one.
		host=$(docker context inspect --format '{{.Endpoints.docker.Host}}' 2>/dev/null) || host=
		[ -n "$host" ] || host=unix://$default_socket
	fi
	engine_version "$host" >/dev/null || return 1
	printf '%s\n' "$host"
}

# Whether $1 is the pid of the dockerd whose pid file is ours.
is_ours() {
	[ -n "$1" ] && [ -r "/proc/$1/cmdline" ] &&
		tr '\0' '\n' <"/proc/$1/cmdline" | grep -qxF -- "--pidfile=$dir/docker.pid"
}

install_engine() {
	command -v dockerd >/dev/null 2>&1 && command -v docker >/dev/null 2>&1 && return 0
	if ! [ -e /etc/debian_version ] || ! command -v apt-get >/dev/null 2>&1; then
		say "no Docker engine answers; start one (this script installs one on Debian only)"
		return 1
	fi
	say "installing docker.io"
	export DEBIAN_FRONTEND=noninteractive
	apt-get update -q >&2
	apt-get install -q -y --no-install-recommends docker.io iptables ca-certificates >&2
	# Debian 13 moved the CLI into a package of its own.
	command -v docker >/dev/null 2>&1 ||
		apt-get install -q -y --no-install-recommends docker-cli >&2
}

start() {
	if host=$(running_engine); then
		say "using the running engine at $host ($(engine_version "$host"))"
		printf 'DOCKER_HOST=%s\n' "$host"
		return 0
	fi
	if [ -n "${DOCKER_HOST:-}" ]; then
		say "no engine answers at DOCKER_HOST=$DOCKER_HOST; start it or unset the variable"
		return 1
	fi
	if [ "$(id -u)" != 0 ]; then
		say "no Docker engine answers, and only root can start one; start it or add yourself to its group"
		return 1
	fi
	install_engine || return 1
	# Where there is a service manager the package has started the engine.
	if host=$(running_engine); then
		say "using the engine the package started at $host"
		printf 'DOCKER_HOST=%s\n' "$host"
		return 0
	fi

	mkdir -p "$dir"
	chmod 0711 "$dir"
	socket=$default_socket
	if [ -S "$socket" ] && [ -e /var/run/docker.pid ] && kill -0 "$(cat /var/run/docker.pid)" 2>/dev/null; then
		# Somebody's engine that does not answer (yet); leave it alone.
		socket=$dir/docker.sock
	fi
	rm -f "$dir/docker.pid"
	# Its own session: a Ctrl-C in the terminal of the tests is not for it.
	setsid dockerd \
		--host="unix://$socket" \
		--data-root="$dir/data" \
		--exec-root="$dir/exec" \
		--pidfile="$dir/docker.pid" \
		>"$dir/dockerd.log" 2>&1 </dev/null &
	tries=0
	until engine_version "unix://$socket" >/dev/null; do
		tries=$((tries + 1))
		if [ "$tries" -gt 150 ]; then
			say "dockerd does not answer; the end of $dir/dockerd.log:"
			tail -n 20 "$dir/dockerd.log" >&2
			stop
			return 1
		fi
		sleep 0.2
	done
	say "started dockerd $(engine_version "unix://$socket"), pid $(cat "$dir/docker.pid"), log $dir/dockerd.log"
	printf 'DOCKER_HOST=unix://%s\n' "$socket"
}

stop() {
	pid=$(cat "$dir/docker.pid" 2>/dev/null) || pid=
	if ! is_ours "$pid"; then
		say "no engine of ours runs in $dir"
		return 0
	fi
	kill -TERM "$pid"
	tries=0
	while is_ours "$pid"; do
		tries=$((tries + 1))
		if [ "$tries" -gt 150 ]; then
			say "dockerd $pid does not end"
			return 1
		fi
		sleep 0.2
	done
	rm -f "$dir/docker.pid"
	say "stopped dockerd $pid"
}

status() {
	pid=$(cat "$dir/docker.pid" 2>/dev/null) || pid=
	if is_ours "$pid"; then
		say "our engine runs, pid $pid"
	elif host=$(running_engine); then
		say "an engine that is not ours runs at $host"
	else
		say "no engine answers"
		return 1
	fi
}

if [ $# != 2 ]; then
	say "usage: docker-engine.sh start|stop|status DIR"
	exit 2
fi
case $2 in
/*) dir=$2 ;;
*) dir=$(pwd)/$2 ;;
esac
case $1 in
start) start ;;
stop) stop ;;
status) status ;;
*)
	say "unknown command $1"
	exit 2
	;;
esac
