"""Writes src/schedlab/fields.py, the fields of results, from the published schema (docs/schema/results.json).

    python python/make_fields.py

A test holds the file equal to what this prints. Methods, and the few fields that have another form here, are in `results`.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SCHEMA = HERE.parent / "docs/schema/results.json"
FIELDS = HERE / "src/schedlab/fields.py"

Schema = Mapping[str, Any]

CLASSES = {
    "Metric": "Metric",
    "Series": "Series",
    "Histogram": "Histogram",
    "Exit": "Exit",
    "Task": "Task",
    "Group": "Group",
    "Waits": "Waits",
    "TaskWaits": "TaskWaits",
    "Warning": "RunWarning",
    "Provenance": "Provenance",
    "PrintedLine": "PrintedLine",
    "CallbackCost": "CallbackCost",
    "AfterEjection": "AfterEjection",
    "Validation": "Validation",
    "Run": "RunFields",
    "Sample": "Sample",
    "Comparison": "ComparisonFields",
    "Ranked": "Ranked",
    "Goal": "Goal",
    "Row": "Row",
    "DocumentTable": "Table",
    "Document": "Document",
}
"""Types of the schema and the classes that they become; all other objects are dictionaries."""

SPREAD = {
    "Workload": {"workload": "name", "params": "params"},
    "Published": {"published": "value"},
    "Judgement": {"verdict": "is", "why": "why"},
}
"""Types whose fields stand in the class that has them, under these names."""

OTHERWISE = {
    ("Sample", "sd"): ("float", "NaN"),
    ("Row", "cells"): None,
    ("Run", "scheduler_tables"): None,
    ("Run", "waits"): None,
}
"""Fields of another type here with what null becomes, and those that only `Result.raw` has."""


def named(schema: Schema, root: Schema) -> tuple[str, Schema]:
    """The name of what a field refers to, and that type."""
    name = schema.get("$ref", "").rsplit("/", 1)[-1]
    return name, root["$defs"].get(name, {})


def choice(schema: Schema) -> tuple[Schema, bool]:
    """A field without the null that it may be, and whether it may."""
    if "anyOf" in schema:
        (one,) = [one for one in schema["anyOf"] if one.get("type") != "null"]
        return one, True
    kinds = schema.get("type")
    if isinstance(kinds, list) and "null" in kinds:
        rest = [kind for kind in kinds if kind != "null"]
        return {**schema, "type": rest[0] if len(rest) == 1 else rest}, True
    return schema, False


def hint(schema: Schema, root: Schema) -> str:
    """The type of a field in Python."""
    schema, nullable = choice(schema)
    name, target = named(schema, root)
    if name:
        is_text = "properties" not in target and "properties" not in target.get("oneOf", [{}])[0]
        text = CLASSES.get(name, "str" if is_text else "dict[str, Any]")
    else:
        kind = schema.get("type")
        simple = {"string": "str", "integer": "int", "number": "float", "boolean": "bool"}
        if kind == "array":
            text = f"list[{hint(schema['items'], root)}]"
        elif kind == "object":
            text = f"dict[str, {hint(schema['additionalProperties'], root)}]"
        else:
            text = simple[kind] if isinstance(kind, str) else "Any"
    return f"{text} | None" if nullable else text


def default(kind: str, schema: Schema, required: bool) -> str:
    """What a field is where a file does not have it; empty for a field that every file has."""
    if "default" not in schema and required:
        return ""
    if kind.endswith("None"):
        return "None"
    name = kind.split("[")[0]
    empty = {"str": "", "int": 0, "float": 0.0, "bool": False}
    if name in empty:
        value = schema.get("default", empty[name])
        return f'"{value}"' if name == "str" else repr(value)
    return f"field(default_factory={name})"


def plain(text: str) -> str:
    """A description without its links."""
    return re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text)


def members(name: str, root: Schema) -> Iterator[tuple[str, str, str, str]]:
    """The fields of a class: name, type, default, and what it means."""
    schema = root["$defs"][name]
    for key, value in schema["properties"].items():
        required = key in schema.get("required", [])
        about = plain(value.get("description", ""))
        if (name, key) in OTHERWISE:
            other = OTHERWISE[(name, key)]
            if other is not None:
                kind, null = other
                yield key, kind, default(kind, value, required), f"{about.split('; null')[0]}; {null} for null."
            continue
        bare, nullable = choice(value)
        target_name, target = named(bare, root)
        if target_name in SPREAD:
            for field, part in SPREAD[target_name].items():
                yield spread(field, part, target, nullable, root, about)
            continue
        kind = hint(value, root)
        if "default" in value and value["default"] is None and not kind.endswith("None"):
            kind += " | None"
        yield key, kind, default(kind, value, required), about


def spread(
    field: str, part: str, target: Schema, nullable: bool, root: Schema, about: str
) -> tuple[str, str, str, str]:
    """A field that stands one level deeper in the file."""
    forms = target.get("oneOf", [target])
    found = [form["properties"][part] for form in forms if part in form["properties"]]
    kind = hint(found[0], root) + (" | None" if nullable else "")
    always = default(kind, found[0], len(found) == len(forms))
    return field, kind, always, plain(found[0].get("description", about))


def class_text(name: str, root: Schema) -> str:
    """A data class."""
    all_members = list(members(name, root))
    about = plain(root["$defs"][name]["description"])
    lines = ["@dataclass(frozen=True)", f"class {CLASSES[name]}:"]
    lines += comment(about)
    lines.append("")
    # Fields that a file may lack come last, since they have a default.
    for key, kind, absent, about in sorted(all_members, key=lambda member: bool(member[2])):
        lines += [f"    {key}: {kind}" + (f" = {absent}" if absent else ""), *comment(about)]
    return "\n".join(lines)


def comment(text: str) -> list[str]:
    """A text in quotes below what it is about."""
    text = text.replace("\\", "\\\\")
    return textwrap.wrap(f'"""{text}"""', 119, initial_indent="    ", subsequent_indent="    ", break_on_hyphens=False)


def made(root: Schema) -> str:
    """The content of the file."""
    names = sorted(CLASSES, key=lambda name: depth(name, root))
    spreads = "\n".join(f"    {name!r}: {parts!r},".replace("'", '"') for name, parts in keys(root).items())
    classes = "\n\n\n".join(class_text(name, root) for name in names)
    number = root["$defs"]["Header"]["properties"]["schema"]["const"]
    return f'''"""The fields of results. Made of docs/schema/results.json by make_fields.py: change the structs that the schema is of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

SCHEMA = {number}
"""The number of the JSON schema that is read."""

SPREAD = {{
{spreads}
}}
"""Objects in a file whose members stand in the class that has the object: by name of the object, the members' names."""


{classes}
'''


def keys(root: Schema) -> dict[str, dict[str, str]]:
    """The fields whose type is spread, and what their members become."""
    found: dict[str, dict[str, str]] = {}
    for name in CLASSES:
        for key, value in root["$defs"][name]["properties"].items():
            target = named(choice(value)[0], root)[0]
            if target in SPREAD:
                found[key] = SPREAD[target]
    return found


def depth(name: str, root: Schema) -> int:
    """How many levels of classes are below one; those with fewer are defined first."""
    below = re.findall(r"#/\$defs/(\w+)", json.dumps(root["$defs"][name]))
    return 1 + max((depth(one, root) for one in below if one in CLASSES and one != name), default=0)


if __name__ == "__main__":
    FIELDS.write_text(made(json.loads(SCHEMA.read_text())))
