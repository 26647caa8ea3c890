"""Slurm's accounting for `sacct`: MariaDB without a network port, and slurmdbd."""

import subprocess

from commands import daemon, run, wait
from layout import STATE

FOLDER = STATE / "database"


def start():
    """Starts both in the calling machine."""
    socket = FOLDER / "socket"
    FOLDER.mkdir()
    run(
        *("mariadb-install-db", "--no-defaults", "--user=root", f"--datadir={FOLDER}/data"),
        *("--auth-root-authentication-method=socket", "--skip-test-db"),
    )
    daemon(
        [
            *("mariadbd", "--no-defaults", "--user=root", f"--datadir={FOLDER}/data"),
            *(f"--socket={socket}", f"--pid-file={FOLDER}/pid"),
            *("--skip-networking", "--innodb-buffer-pool-size=64M"),
        ],
        log="mariadbd",
    )
    create = ["mariadb", "--no-defaults", "-S", str(socket), "-e", "create database slurm"]
    _await("MariaDB", create)
    config = STATE / "etc/slurmdbd.conf"
    config.write_text(
        f"AuthType=auth/munge\nAuthInfo=socket={STATE}/munge/socket\nDbdHost=login\n"
        f"SlurmUser=root\nStorageType=accounting_storage/mysql\nStorageHost=localhost\n"
        f"StorageUser=root\nStorageLoc=slurm\nLogFile={STATE}/log/slurmdbd\n"
        f"PidFile={STATE}/run/slurmdbd.pid\n"
    )
    config.chmod(0o600)
    daemon(["slurmdbd", "-D"], log="slurmdbd.out", MYSQL_UNIX_PORT=str(socket))
    _await("slurmdbd", ["sacctmgr", "-n", "list", "cluster"])
    # Without the cluster's record, slurmctld has no TRES and stops at its first start.
    run("sacctmgr", "-i", "add", "cluster", "vcluster", check=False)


def _await(what, probe):
    def works():
        return subprocess.run(probe, capture_output=True, check=False, timeout=5).returncode == 0

    wait(works, 20, lambda: f"{what} does not start: see {STATE}/log")
