# The operator's image: its part of the hashed lock and the package, on a runtime with no shell.
# Both bases may be replaced, for machines that reach no image registry (kopf_offline/images.py).
ARG BUILD_BASE=docker.io/library/python:3.13-slim-trixie
ARG RUNTIME_BASE=gcr.io/distroless/python3-debian13:nonroot

# Whatever the image is for, all that runs here runs on the platform that builds it: the wheels are
# taken for both, by pip's name for a platform, and bytecode is the same on all.
FROM --platform=${BUILDPLATFORM} ${BUILD_BASE} AS build
ARG BUILDARCH
ARG TARGETARCH
COPY requirements.txt packages/kopf-kit/src/kopf_kit/rig/locked.py /source/
# --no-deps: its part of the lock is complete. Scripts, type stubs and tests are of no use to a runtime.
RUN set -e; python3 /source/locked.py kopf-runtime </source/requirements.txt >/source/operator.txt; \
    for arch in "$BUILDARCH" "$TARGETARCH"; do \
      case $arch in \
        amd64) machine=x86_64 ;; \
        arm64) machine=aarch64 ;; \
        *) echo "no image is built for linux/$arch: only for linux/amd64 and linux/arm64" >&2; exit 1 ;; \
      esac; \
      test -d /out/$arch || python3 -m pip install \
        --quiet --no-cache-dir --disable-pip-version-check --root-user-action=ignore \
        --only-binary=:all: $(seq -f "--platform=manylinux_2_%g_$machine" 17 41) \
        --require-hashes --no-deps --no-compile --target=/out/$arch/app --requirement=/source/operator.txt; \
    done; \
    rm -rf /out/*/app/bin; \
    find /out -depth \( -name '*.pyi' -o -name '*.pyx' -o -name '*.pxd' -o -name '*.c' -o -name '*.h' \
        -o -type d -name tests \) -exec rm -rf {} +
COPY packages/kopf-runtime/src/kopf_runtime /source/operator/kopf_runtime
COPY operator/message_operator /source/operator/message_operator
# One time stamp, so that the same sources make the same files.
RUN for app in /out/*/app; do cp -r /source/operator/. "$app"; done \
 && find /out -exec touch --no-dereference --date=@0 {} +

# Compiled by the Python that will run it.
FROM --platform=${BUILDPLATFORM} ${RUNTIME_BASE} AS bytecode
ARG BUILDARCH
USER 0
ENV PYTHONPATH=/app PYTHONDONTWRITEBYTECODE=1
COPY --from=build /out/${BUILDARCH} /
RUN --mount=type=bind,source=packages/kopf-kit/src/kopf_kit/image/bytecode.py,target=/bytecode.py \
    --mount=type=bind,source=LICENSE,target=/own-licenses/LICENSE \
    ["python3", "/bytecode.py", "/out", "message_operator"]

FROM ${RUNTIME_BASE}
ARG TARGETARCH
ARG VERSION=0.0.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="message-operator" \
      org.opencontainers.image.description="Turns every Message into a Pod that prints it" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.source="https://github.com/myorg/message-operator" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      name="message-operator" \
      vendor="The message-operator founders" \
      maintainer="The message-operator founders" \
      version="${VERSION}" \
      release="${REVISION}" \
      summary="Turns every Message into a Pod that prints it" \
      description="Turns every Message into a Pod that prints it"
ENV PYTHONPATH=/app PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
COPY --from=build /out/${TARGETARCH} /
COPY --from=bytecode /out /
# Numeric, for only then can the kubelet verify runAsNonRoot.
USER 65532:65532
ENTRYPOINT ["python3", "-m", "message_operator"]
