"""The interface for people: its OpenAPI description as one page without script."""

from collections.abc import Iterator
from html import escape
from typing import Any

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 56rem; margin: 2rem auto; padding: 0 1rem }
code, pre { font-family: ui-monospace, monospace; font-size: .9em }
pre { background: #8882; padding: .5rem; overflow: auto }
section { border-top: 1px solid #8886; margin-top: 1rem } h2 { font-size: 1.1rem }
:root { color-scheme: light dark }
"""


def page(description: dict[str, Any]) -> str:
    """The page; its style is at ``/docs.css``."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        '<link rel="stylesheet" href="/docs.css">'
        f"<title>{escape(description['info']['title'])}</title></head><body><main>"
        f"<h1>{escape(description['info']['title'])}</h1>"
        f"<p>{escape(description['info'].get('description', ''))} "
        'The same for machines: <a href="/openapi.json">openapi.json</a>.</p>'
        f"{''.join(_routes(description))}</main></body></html>"
    )


def _routes(description: dict[str, Any]) -> Iterator[str]:
    schemas = description.get("components", {}).get("schemas", {})
    for path, methods in description["paths"].items():
        for method, route in methods.items():
            yield f"<section><h2><code>{method.upper()} {escape(path)}</code></h2>"
            about = route.get("description") or route.get("summary", "")
            yield f"<p>{escape(about)}</p>"
            if given := route.get("parameters"):
                rows = "".join(
                    f"<li><code>{escape(p['name'])}</code> ({p['in']}): "
                    f"<code>{escape(_type(p['schema'], schemas))}</code></li>"
                    for p in given
                )
                yield f"<ul>{rows}</ul>"
            for kind, body in route.get("requestBody", {}).get("content", {}).items():
                shape = _type(body.get("schema", {}), schemas)
                yield f"<p>Body, {escape(kind)}:</p><pre>{escape(shape)}</pre>"
            yield "</section>"


def _type(schema: dict[str, Any], schemas: dict[str, Any], depth: int = 0) -> str:
    """A schema in short: names of types, objects spelled out."""
    if "$ref" in schema:
        schema = schemas[schema["$ref"].rpartition("/")[2]]
    if "anyOf" in schema:
        return " | ".join(_type(one, schemas, depth) for one in schema["anyOf"])
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    if schema.get("type") == "array":
        return f"[{_type(schema['items'], schemas, depth)}, ...]"
    if "properties" in schema:
        inner = "  " * (depth + 1)
        needed = schema.get("required", [])
        rows = (
            f"{inner}{name}{'' if name in needed else '?'}: {_type(one, schemas, depth + 1)}"
            for name, one in schema["properties"].items()
        )
        return "{\n" + ",\n".join(rows) + "\n" + "  " * depth + "}"
    return str(schema.get("type", "any"))
