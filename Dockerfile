# seq2see serve on a CPU. The model directory is mounted, see compose.yaml.
#
#     docker build -t seq2see .
#     docker run -p 127.0.0.1:5000:5000 -v "$PWD/runs:/models:ro" seq2see
#
# For the small CPU build of PyTorch: --build-arg TORCH_OPTIONS="--index-url ADDRESS" with the address
# from PyTorch's page "Get started".

FROM python:3.12-slim AS build
ARG TORCH_OPTIONS=""
WORKDIR /build
COPY constraints.txt ./
RUN python -m venv /opt/seq2see \
    && /opt/seq2see/bin/pip install --no-cache-dir -c constraints.txt $TORCH_OPTIONS "$(grep '^torch==' constraints.txt)"
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN /opt/seq2see/bin/pip install --no-cache-dir -c constraints.txt '.[serve]' \
    && /opt/seq2see/bin/pip uninstall --yes pip

FROM python:3.12-slim
RUN useradd --create-home --uid 1000 seq2see
COPY --from=build /opt/seq2see /opt/seq2see
ENV PATH=/opt/seq2see/bin:$PATH PYTHONUNBUFFERED=1
USER seq2see
WORKDIR /home/seq2see
EXPOSE 5000
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:5000/ready')"]
ENTRYPOINT ["seq2see"]
CMD ["serve", "/models/demo", "--host", "0.0.0.0"]
