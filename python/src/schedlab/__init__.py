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
from schedlab.fields import (
    AfterEjection,
    Document,
    Exit,
    Goal,
    Group,
    Histogram,
    Metric,
    Provenance,
    Ranked,
    Row,
    RunWarning,
    Sample,
    Series,
    Table,
    Task,
    TaskWaits,
    Validation,
    Waits,
)
from schedlab.judge import JudgedLoad, Judgement, judge
from schedlab.lab import Lab
from schedlab.results import Comparison, Difference, Result, Run, Stat
from schedlab.sweep import Cell, Pool, Workers
from schedlab.trace import Stretch, Trace, Wakeup

__version__ = "0.1.0"

__all__ = [
    "AfterEjection",
    "Cell",
    "CommandNotFound",
    "Comparison",
    "Difference",
    "Document",
    "Ejected",
    "EnvironmentLacks",
    "Exit",
    "Failed",
    "Goal",
    "Group",
    "Histogram",
    "Inconclusive",
    "JudgedLoad",
    "Judgement",
    "Lab",
    "Metric",
    "Pool",
    "Provenance",
    "Ranked",
    "Result",
    "Row",
    "Run",
    "RunWarning",
    "Sample",
    "SchedlabError",
    "Series",
    "Stat",
    "Stretch",
    "Table",
    "Task",
    "TaskWaits",
    "Trace",
    "UsageError",
    "Validation",
    "Waits",
    "Wakeup",
    "Workers",
    "judge",
]
