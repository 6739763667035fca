"""What the parts of pages (`templates/parts/`) show: lists, form fields, confirmations, charts.

Each class is the argument of the template of its name, and holds texts and numbers alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Choice:
    """A value that a field offers."""

    value: str
    label: str


@dataclass(frozen=True, slots=True)
class Field:
    """A form field: `parts/field.html`."""

    name: str
    label: str
    value: str = ""
    kind: str = "text"
    """`text`, `search`, `number`, `datetime-local`, `select`, `checkbox`, `checks` (several of the
    choices) or `textarea`."""
    choices: Sequence[Choice] = ()
    """The values of a `select`; those that a `text` suggests."""
    empty: str = "Any"
    """The choice of no value; "" if there must be one."""
    help: str = ""
    error: str = ""
    wide: bool = False
    required: bool = False
    max_length: int = 300
    rows: int = 8
    """Lines of a `textarea`."""
    chosen: Sequence[str] = ()
    """The values of `checks`."""

    @property
    def id(self) -> str:
        """Return the id of the control."""
        return f"field-{self.name}"

    @property
    def offered(self) -> bool:
        """Return whether the value is one of the choices, or none is given."""
        return not self.value or self.value in {choice.value for choice in self.choices}

    @property
    def described_by(self) -> str:
        """Return the ids of the help and of the error."""
        parts = (f"{self.id}-help" if self.help else "", f"{self.id}-error" if self.error else "")
        return " ".join(part for part in parts if part)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a list."""

    label: str
    css: str = ""
    """The class of its cells."""
    order: str = ""
    """The query string that turns the order of the list around; "" if the list cannot be sorted by
    it."""
    arrow: str = ""
    """`↑` or `↓` if the list is sorted by it."""
    order_label: str = ""
    """What the link of `order` does."""


@dataclass(frozen=True, slots=True)
class Empty:
    """What to do where nothing is: `parts/empty.html`."""

    title: str
    text: str = ""
    command: str = ""
    links: Sequence[tuple[str, str]] = ()
    """Labels and addresses."""


@dataclass(frozen=True, slots=True)
class Listing:
    """A list: `parts/list.html`. The template `row` shows the cells of one row, as `row`."""

    caption: str
    columns: Sequence[Column]
    row: str
    rows: Sequence[Any]
    empty: Empty
    choose: str = ""
    """What a row is called to whoever chooses some of them; "" if none can be chosen."""
    first: str = ""
    """The query string of the first page, if this is another one."""
    next: str = ""
    """The query string of the next page, if there is one."""


@dataclass(frozen=True, slots=True)
class Confirm:
    """A question before something is done: `parts/confirm.html`."""

    title: str
    warning: str
    button: str
    action: str
    """The address to which the answer is posted."""
    back: str
    tone: str = "primary"
    """`primary`, or `danger` for what cannot be undone."""
    facts: Sequence[tuple[str, str]] = ()
    """What it will do, as names and values."""
    hidden: Sequence[tuple[str, str]] = ()
    """More fields of the form."""
    possible: bool = True


@dataclass(frozen=True, slots=True)
class Progress:
    """How far something is: `parts/progress.html`."""

    label: str
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class Series:
    """The values of one kind in a chart, one for each time."""

    label: str
    tone: str
    """`good`, `bad`, `live`, `waiting`, `off` or `accent`."""
    values: Sequence[float]


@dataclass(frozen=True, slots=True)
class Rectangle:
    """A rectangle of a chart, in percent of the width and the height."""

    x: float
    width: float
    tone: str
    y: float
    height: float


@dataclass(frozen=True, slots=True)
class Chart:
    """Stacked columns over time: `parts/chart.html`. It is drawn by the server."""

    title: str
    labels: Sequence[str]
    series: Sequence[Series]
    unit: str = ""
    sample: str = ""
    """What was counted, if that is not all there is."""
    height: int = field(default=72)
    """In pixels."""

    @property
    def most(self) -> float:
        """Return the highest sum of a column."""
        return max((sum(each) for each in zip(*self._values, strict=True)), default=0)

    @property
    def columns(self) -> list[Rectangle]:
        """Return the rectangles, each series on the one before it."""
        share = 100 / max(len(self.labels), 1)
        most = self.most
        drawn: list[Rectangle] = []
        for at, values in enumerate(zip(*self._values, strict=True)):
            top = 100.0
            for series, value in zip(self.series, values, strict=True):
                height = 100 * value / most if most else 0
                top -= height
                if height:
                    box = (round(at * share + share * 0.1, 3), round(share * 0.8, 3))
                    drawn.append(Rectangle(*box, series.tone, round(top, 3), round(height, 3)))
        return drawn

    @property
    def table(self) -> list[tuple[str, list[float]]]:
        """Return the same as rows of a table: a label and the values."""
        return [
            (self.labels[at], list(row)) for at, row in enumerate(zip(*self._values, strict=True))
        ]

    @property
    def _values(self) -> list[Sequence[float]]:
        return [series.values for series in self.series]
