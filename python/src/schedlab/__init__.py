"""Linux CPU schedulers compared, from Python: the `schedlab` command's runs and results.

The command does the work; this package starts it and reads its JSON.

    import schedlab
    lab = schedlab.Lab()
    result = lab.compare(["vanilla", "o1"], "chat:rooms=10,messages=20", cpus=[2, 4, 8])
    result.comparison_frame()
"""

from schedlab.command import (
    CommandNotFound,
    Ejected,
    EnvironmentLacks,
    Failed,
    Inconclusive,
    SchedlabError,
    UsageError,
)
from schedlab.lab import Lab
from schedlab.results import (
    Comparison,
    Difference,
    Document,
    Exit,
    Histogram,
    Metric,
    Result,
    Row,
    Run,
    Sample,
    Series,
    Stat,
    Table,
    Task,
)
from schedlab.sweep import Cell, Pool, Workers

__version__ = "0.1.0"

__all__ = [
    "Cell",
    "CommandNotFound",
    "Comparison",
    "Difference",
    "Document",
    "Ejected",
    "EnvironmentLacks",
    "Exit",
    "Failed",
    "Histogram",
    "Inconclusive",
    "Lab",
    "Metric",
    "Pool",
    "Result",
    "Row",
    "Run",
    "Sample",
    "SchedlabError",
    "Series",
    "Stat",
    "Table",
    "Task",
    "UsageError",
    "Workers",
]
