# An image with PopART installed from a wheel that is built from the files of this repository.
#
#   docker build -t popart .
#   docker run --rm -v "$PWD:/work" popart popart-inspect model.onnx
#
# Continuous integration does not build this image.

FROM debian:12-slim AS build
RUN apt-get update -q && apt-get install -q -y --no-install-recommends ca-certificates python3
WORKDIR /source
COPY . .
RUN ./dev wheel --python python3

FROM debian:12-slim
RUN apt-get update -q \
    && apt-get install -q -y --no-install-recommends ca-certificates libstdc++6 python3 python3-venv \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /source/build/wheels /wheels
RUN python3 -m venv /opt/popart \
    && /opt/popart/bin/pip install --no-cache-dir /wheels/*-cp311-cp311-*.whl \
    && rm -r /wheels
ENV PATH=/opt/popart/bin:$PATH
RUN useradd --create-home popart
USER popart
WORKDIR /work
CMD ["python", "-c", "import popart; print('popart', popart.__version__)"]
