# The bot: one static program, git and nothing else; no shell. Both bases are
# arguments, for places that no registry reaches, and pinned: renew them with each
# release (docker buildx imagetools inspect NAME:TAG).
#
#   docker build -t ralph-bot .
ARG GO_BASE=golang:1.26.4-bookworm@sha256:5d2b868674b57c9e48cdd39e891acce4196b6926ca6d11e9c270a8f85106203d
ARG BASE=debian:bookworm-slim@sha256:63a496b5d3b99214b39f5ed70eb71a61e590a77979c79cbee4faf991f8c0783e

FROM ${GO_BASE} AS build
WORKDIR /src
ARG GO_PROXY=https://proxy.golang.org,direct
ENV GOPROXY=${GO_PROXY} GOFLAGS=-buildvcs=false GOTOOLCHAIN=local
COPY go.mod go.sum ./
RUN go mod download
COPY cmd cmd
COPY internal internal
ARG VERSION=
ARG COMMIT=
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=${VERSION} -X main.revision=${COMMIT}" -o /ralph-bot ./cmd/bot

# git, the programs of it that speak HTTPS (one of them serves `bot demo` its GitHub),
# and the libraries these need; and those of the C library that agents' programs need,
# which `bot doctor` tries.
FROM ${BASE} AS root
RUN apt-get update \
	&& apt-get install --yes --no-install-recommends ca-certificates git \
	&& rm -rf /var/lib/apt/lists/*
RUN set -eu; r=/root/image; git=/usr/lib/git-core; \
	mkdir -p $r/usr/bin $r$git $r/usr/share/git-core/templates $r/etc/ssl/certs $r/etc/ralph $r/tmp $r/var/lib/ralph; \
	chmod 1777 $r/tmp; \
	cp -L /usr/bin/git $r/usr/bin/git; ln -s ../../bin/git $r$git/git; \
	cp -L $git/git-remote-http $git/git-http-backend $r$git/; ln -s git-remote-http $r$git/git-remote-https; \
	for f in /usr/bin/git $git/git-remote-http $git/git-http-backend; do ldd $f; done | grep -o '/[^ ]*' | sort -u | while read -r lib; do \
		mkdir -p "$r$(dirname "$lib")"; cp -L "$lib" "$r$lib"; done; \
	for lib in libnss_dns.so.2 libnss_files.so.2 libresolv.so.2 libdl.so.2 libm.so.6 libpthread.so.0 librt.so.1; do \
		find /lib /usr/lib -name $lib | head -n 1 | while read -r f; do mkdir -p "$r$(dirname "$f")"; cp -L "$f" "$r$f"; done; done; \
	cp -L /etc/ssl/certs/ca-certificates.crt $r/etc/ssl/certs/; \
	echo 'ralph:x:10001:10001::/var/lib/ralph:/sbin/nologin' >$r/etc/passwd; \
	echo 'ralph:x:10001:' >$r/etc/group; \
	echo 'hosts: files dns' >$r/etc/nsswitch.conf; \
	chown 10001:10001 $r/var/lib/ralph

FROM scratch
COPY --from=root /root/image/ /
COPY --from=build /ralph-bot /usr/local/bin/ralph-bot
ENV PATH=/usr/local/bin:/usr/bin HOME=/var/lib/ralph TMPDIR=/var/lib/ralph RALPH_DATA_DIR=/var/lib/ralph SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt
USER 10001:10001
WORKDIR /var/lib/ralph
VOLUME /var/lib/ralph
EXPOSE 8080
ENTRYPOINT ["/usr/local/bin/ralph-bot"]
CMD ["serve", "--config", "/etc/ralph/ralph.yaml"]
