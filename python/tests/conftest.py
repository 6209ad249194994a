"""Machines for tests."""

import pytest
import riscv


@pytest.fixture
def boot(tmp_path):
    """Makes a machine of a flat program."""

    # Tests of sweeps have no package installed.
    import trapless

    def make(code, **options):
        file = tmp_path / "program.bin"
        file.write_bytes(code)
        return trapless.Machine.boot(firmware=file, harts=1, **{"ram": "64M", **options})

    return make


@pytest.fixture
def traps(boot):
    """A machine with a program of three calls."""
    return boot(riscv.traps(3))
