"""``runs/README.md``, filled from the schema so that it cannot disagree with it.

    connlab/schema/runs.md.j2 + models, columns.csv -> runs/README.md

``python -m connlab.drive.describe > runs/README.md`` renews it; a test compares.
"""

from pathlib import Path

import jinja2

from connlab import schema

_TEMPLATE = Path(schema.__file__).with_name("runs.md.j2")
#: models of facts, and where in a trial each stands
_MODELS = {
    schema.Trial: "",
    schema.Turns: "turns.",
    schema.Samples: "server.samples.",
    schema.Heartbeat: "",
}


def readme() -> str:
    """Return the text of ``runs/README.md``."""
    template = jinja2.Template(_TEMPLATE.read_text("utf-8"), trim_blocks=True)
    return template.render(models=_MODELS, keys=_keys, columns=schema.COLUMNS)


def _keys(model: type[schema.Facts], prefix: str) -> str:
    names = [field.alias or name for name, field in model.model_fields.items()]
    return ", ".join(f"`{prefix}{name}`" for name in names)


if __name__ == "__main__":
    print(readme(), end="")
