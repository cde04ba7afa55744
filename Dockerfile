# The tagging server on a CPU (docs/deploy.md): `docker build --tag hardner .`
# With `--target full`, one that has torch as well, and so tags with any model folder.
# What pip asks is said from outside: --build-arg PIP_EXTRA_INDEX_URL=... of torch's builds without
# CUDA spares gigabytes while it is built, and in the full image.

FROM python:3.11.14-slim-bookworm AS python
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PATH=/opt/hardner/bin:$PATH
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
WORKDIR /build
COPY requirements ./requirements
RUN python -m venv /opt/hardner

FROM python AS wheel
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
RUN pip wheel --no-deps --wheel-dir /wheels .

# All of hardner; it writes the bundled model for the small image.
FROM python AS with-torch
COPY --from=wheel /wheels /wheels
RUN pip install --constraint requirements/tested.txt "$(ls /wheels/*.whl)[onnx,serve]" \
    && hardner export --onnx /srv/hardner/bundled

# Without torch: onnxruntime, tokenizers and numpy.
FROM python AS without-torch
COPY --from=wheel /wheels /wheels
RUN pip install --no-deps /wheels/*.whl \
    && pip install --constraint requirements/tested.txt --requirement requirements/onnx.txt

FROM python:3.11.14-slim-bookworm AS server
ENV PATH=/opt/hardner/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 PORT=8000
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "import os, urllib.request as ask; ask.urlopen(f'http://127.0.0.1:{os.environ[\"PORT\"]}/health', timeout=4)"]
# What follows the image's name are further options: docker run hardner --model mine=/models/mine
ENTRYPOINT ["sh", "-c", "exec hardner serve --api --host 0.0.0.0 --port \"$PORT\" \"$@\"", "hardner"]

FROM server AS full
COPY --from=with-torch /opt/hardner /opt/hardner
USER 10001:10001

FROM server AS onnx
COPY --from=without-torch /opt/hardner /opt/hardner
COPY --from=with-torch /srv/hardner /srv/hardner
USER 10001:10001
CMD ["--model", "bundled=/srv/hardner/bundled"]
