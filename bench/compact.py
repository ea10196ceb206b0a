"""Lists of records as tables: the names of the columns once, and a line of values for each record.

    [{"m": 1, "n": 8, "seconds": {"tiled": 2}}, ...]  <->
    {"same": {"n": 8}, "columns": ["m", "n", "seconds.tiled"], "rows": [[1, 2], ...]}

`same` has the value of each column in which all records agree, and rows have the others. A column
named in `absent` has null where a record has no such key, and a record's part named in `null` is
null where all its columns are.
Lists of records inside records are tables of their own (`tables`), whose rows stand in the rows.
"""

from __future__ import annotations

import json
from typing import Any

DIGITS = 5  # a table shows four at most


def rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: rounded(x) for key, x in value.items()}
    if isinstance(value, list):
        return [rounded(x) for x in value]
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def _is_records(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(x, dict) for x in value)


def _flat(record: dict, prefix: str = "") -> dict[str, Any]:
    found = {}
    for key, value in record.items():
        if isinstance(value, dict) and value:
            found |= _flat(value, f"{prefix}{key}.")
        else:
            found[prefix + key] = value
    return found


def _table(records: list[dict]) -> dict[str, Any]:
    flat = [_flat(record) for record in records]
    columns: list[str] = []
    for record in flat:
        at = 0  # a column that not all have stands where a record has it
        for key in record:
            if key not in columns:
                columns.insert(at, key)
            at = columns.index(key) + 1
    null = [c for c in columns if any(other.startswith(f"{c}.") for other in columns)]
    for part in null:
        columns.remove(part)
        for record in flat:
            if part in record:
                del record[part]
                record |= dict.fromkeys(c for c in columns if c.startswith(f"{part}."))
    tables = {}
    for c in columns:
        lists = [record.get(c) for record in flat]
        if any(lists) and all(isinstance(x, list) and (not x or _is_records(x)) for x in lists):
            tables[c] = _table([x for inner in lists for x in inner])
            rows = iter(tables[c].pop("rows"))
            for record, inner in zip(flat, lists, strict=True):
                record[c] = [next(rows) for _ in inner]
    first = flat[0]
    same = {
        c: first[c]
        for c in columns
        if c not in tables
        and c in first
        and all(c in r and (type(r[c]), r[c]) == (type(first[c]), first[c]) for r in flat)
    }
    absent = [c for c in columns if not all(c in record for record in flat)]
    rows = [[record.get(c) for c in columns if c not in same] for record in flat]
    parts = {"same": same, "absent": absent, "null": null, "tables": tables}
    return {k: v for k, v in parts.items() if v} | {"columns": columns, "rows": rows}


def _records(table: dict[str, Any]) -> list[dict]:
    return [_record(table, row) for row in table["rows"]]


def _record(table: dict[str, Any], row: list) -> dict:
    same, rest = table.get("same", {}), iter(row)
    values = {}
    for column in table["columns"]:
        value = same[column] if column in same else next(rest)
        if value is None and column in table.get("absent", ()):
            continue
        inner = table.get("tables", {}).get(column)
        values[column] = _records(inner | {"rows": value}) if inner and value else value
    record: dict[str, Any] = {}
    for column, value in values.items():
        inner, last = _inner(record, column)
        inner[last] = value
    for part in sorted(table.get("null", ()), key=lambda part: -part.count(".")):
        inner, last = _inner(record, part)
        if inner.get(last) and all(x is None for x in inner[last].values()):
            inner[last] = None
    return record


def _inner(record: dict, column: str) -> tuple[dict, str]:
    """The dict that holds a column's value, and its key there."""
    *path, last = column.split(".")
    for key in path:
        record = record.setdefault(key, {})
    return record, last


def packed(value: Any) -> Any:
    """The same with its lists of records as tables. A list that would not come back the same (keys
    with dots) stays as it is."""
    if _is_records(value):
        table = _table(value)
        return table if json.dumps(_records(table)) == json.dumps(value) else value
    return {key: packed(x) for key, x in value.items()} if isinstance(value, dict) else value


def unpacked(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if {"columns", "rows"} <= value.keys():
        return _records(value)
    return {key: unpacked(x) for key, x in value.items()}


def _json(value: Any, tight: bool = False) -> str:
    separators = (",", ":") if tight else None
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=separators)


def text(value: Any) -> str:
    """As JSON, with a line for each row of a table, and for each key that does not stand in one."""
    if not isinstance(value, dict) or not any(isinstance(x, dict | list) for x in value.values()):
        return _json(value)
    parts = []
    for key, x in value.items():
        if key == "rows" and "columns" in value:
            rows = ",\n".join(_json(row, tight=True) for row in x)
            parts.append(f'"rows": [\n{rows}\n]')
        else:
            parts.append(f"{_json(key)}: {text(x) if _has_table(x) else _json(x)}")
    return "{\n" + ",\n".join(parts) + "\n}"


def _has_table(value: Any) -> bool:
    return isinstance(value, dict) and ("rows" in value or any(map(_has_table, value.values())))
