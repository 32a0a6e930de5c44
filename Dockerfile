# docker build -t schedlab . && docker run --rm schedlab compare -s eevdf,o1 -w chat
# A scheduler's own loader (exec:) is traced: docker run --cap-add SYS_PTRACE --security-opt seccomp=unconfined
FROM rust:1-trixie AS build
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends \
    clang-19 make pkg-config autoconf automake autopoint gettext flex bison gawk git
WORKDIR /src
COPY . .
ARG SOURCE_DATE_EPOCH=0
RUN CARGO_TARGET_DIR=/target scripts/release binary && mv /target/dist/schedlab-* /schedlab

# The binary needs no file of a distribution.
FROM scratch
COPY --from=build /schedlab /usr/bin/schedlab
COPY LICENSE LICENSE-MIT LICENSE-APACHE packaging/copyright /usr/share/licenses/schedlab/
COPY schedulers/LICENSE /usr/share/licenses/schedlab/LICENSE-GPL-2.0
WORKDIR /work
ENTRYPOINT ["/usr/bin/schedlab"]
