"""The tests run the real binary; SCHEDLAB names it, or it is found as users' is."""

import pytest

import schedlab


@pytest.fixture(scope="session")
def lab() -> schedlab.Lab:
    return schedlab.Lab()
