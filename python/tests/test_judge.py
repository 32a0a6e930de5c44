"""`schedlab.judge()`."""

import pytest

import schedlab


def test_equal_schedulers_have_the_score_one(lab: schedlab.Lab) -> None:
    answer = schedlab.judge("o1", against="o1", seed_key=1, binary=lab.binary)
    assert (answer.accepted, answer.better, answer.score, answer.interval) == (True, False, 1.0, (1.0, 1.0))
    assert [load.name for load in answer.loads] == ["frames", "keys", "music", "pages", "build"]
    assert answer.seed_key == "1" and answer.json["suite"] == "desktop"


def test_a_rejection_is_an_answer(lab: schedlab.Lab) -> None:
    answer = schedlab.judge("o1", seed_key=1, suite="server", settings={"profile": "d1"}, binary=lab.binary)
    assert not answer.accepted and answer.reasons
    with pytest.raises(schedlab.UsageError, match="no scheduler named 'o9'"):
        schedlab.judge("o9", binary=lab.binary)
