# The bot: one static program, and git. Both bases are arguments, for places that no
# registry reaches, and pinned: renew them with each release (docker buildx imagetools
# inspect NAME:TAG).
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

# git runs its own parts by a shell, so the base has one.
FROM ${BASE}
RUN apt-get update \
	&& apt-get install --yes --no-install-recommends ca-certificates git \
	&& rm -rf /var/lib/apt/lists/* \
	&& useradd --uid 10001 --create-home --home-dir /var/lib/ralph --shell /usr/sbin/nologin ralph \
	&& mkdir /etc/ralph
COPY --from=build /ralph-bot /usr/local/bin/ralph-bot
ENV HOME=/var/lib/ralph TMPDIR=/var/lib/ralph RALPH_DATA_DIR=/var/lib/ralph
USER 10001:10001
WORKDIR /var/lib/ralph
VOLUME /var/lib/ralph
EXPOSE 8080
ENTRYPOINT ["/usr/local/bin/ralph-bot"]
CMD ["serve", "--config", "/etc/ralph/ralph.yaml"]
