"""The values of the agent's options, read from text. Errors are those of argparse."""

import argparse
import json
from pathlib import Path
from typing import Any

import yaml

from base.podspec.node_templates import NodeTemplate, read_templates
from executor.drivers.kubernetes.pod_names import check_name, check_template


def template(text: str) -> str:
    try:
        return check_template(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def priority_class(text: str) -> tuple[str, str]:
    left, _, name = text.partition("=")
    if not left:
        raise argparse.ArgumentTypeError("must be CLASS=NAME")
    try:
        return left, check_name(name)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"must be CLASS=NAME, and NAME {error}") from None


def templates(path: str) -> list[NodeTemplate]:
    try:
        given = json.loads(Path(path).read_text("utf-8"))
        found = read_templates(given)
    except (OSError, ValueError) as error:
        raise argparse.ArgumentTypeError(f"{path}: {error}") from None
    # The server leaves out what it does not know; here it is a misspelt field.
    for number, each in enumerate(given):
        for name in sorted(each.keys() - NodeTemplate.__annotations__.keys()):
            raise argparse.ArgumentTypeError(f"{path}: {number}.{name}: no field of a template")
    return found


def document(path: str) -> Any:
    try:
        found = yaml.safe_load(Path(path).read_text("utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise argparse.ArgumentTypeError(f"{path}: {error}") from None
    return {} if found is None else found


def seconds(text: str) -> float:
    number = non_negative(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def non_negative(text: str) -> float:
    number = float(text)
    if not 0 <= number < float("inf"):
        raise argparse.ArgumentTypeError("must be 0 or more")
    return number


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number
