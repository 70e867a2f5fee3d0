"""The files of ``docs/deployment`` are true of this version: flags, paths, ports, times, mounts."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from clients import client, model

from mfrank.cli.main import main

yaml = pytest.importorskip("yaml", reason="reads compose.yaml: pip install pyyaml")

FILES = Path(__file__).parents[2] / "docs" / "deployment"
PORT, LONGEST_END = 8000, 15.0
"""Where the service listens in them; seconds that it may take to end, after draining."""


def text_of(name: str) -> str:
    return (FILES / name).read_text("utf-8")


def manifests() -> dict[str, Any]:
    """Of Kubernetes, by their kinds."""
    return {each["kind"]: each for each in yaml.safe_load_all(text_of("kubernetes.yaml"))}


def pods() -> dict[str, Any]:
    """The pods of the manifests."""
    found = manifests()
    service = found["Deployment"]["spec"]["template"]["spec"]
    return {"serve": service, "update": _nightly(found)}


def _nightly(found: dict[str, Any]) -> Any:
    return found["CronJob"]["spec"]["jobTemplate"]["spec"]["template"]["spec"]


def compose() -> dict[str, Any]:
    services: dict[str, Any] = yaml.safe_load(text_of("compose.yaml"))["services"]
    return services


def unit() -> dict[str, str]:
    """The settings of the unit of systemd."""
    text = text_of("mfrank.service").replace("\\\n", "")
    return dict(re.findall(r"^(\w+)=(.*)$", text, re.MULTILINE))


def commands() -> dict[str, list[str]]:
    """Every command of mfrank in the files."""
    image = re.search(r"^CMD (\[.*\])$", text_of("Dockerfile"), re.MULTILINE)
    assert image
    found = {
        "Dockerfile": yaml.safe_load(image[1]),
        "systemd": shlex.split(unit()["ExecStart"])[1:],
    }
    found |= {f"compose {name}": compose()[name]["command"] for name in ("mfrank", "update")}
    found |= {f"pod {name}": pod["containers"][0]["args"] for name, pod in pods().items()}
    page = (FILES.parent / "deployment.md").read_text("utf-8")
    for number, line in enumerate(re.findall(r"/mfrank (update .*)$", page, re.MULTILINE)):
        found[f"crontab {number}"] = shlex.split(line)
    return found


@pytest.mark.parametrize("where", commands())
def test_commands_have_flags_that_there_are(where: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = commands()[where]
    assert main([command[0], "--help"]) == 0
    told = capsys.readouterr().out
    flags = [word for word in command if word.startswith("--")]
    assert flags
    for flag in flags:
        assert re.search(rf"{flag}\b", told), flag


def options(where: str) -> dict[str, str]:
    """The options of a command, each with a value."""
    words = commands()[where][2:]
    return dict(zip(words[::2], words[1::2], strict=True))


SERVING = ["Dockerfile", "systemd", "compose mfrank", "pod serve"]


@pytest.mark.parametrize("where", SERVING)
def test_the_service_has_the_port_that_others_ask(where: str) -> None:
    assert int(options(where)["--port"]) == PORT
    has_network = where != "systemd"  # there, a proxy on the same machine
    assert (options(where).get("--host") == "0.0.0.0") == has_network


def test_ports_agree() -> None:
    (port,) = pods()["serve"]["containers"][0]["ports"]
    assert port == {"name": "http", "containerPort": PORT}
    assert manifests()["Service"]["spec"]["ports"][0]["targetPort"] == "http"
    assert re.findall(r"server (\S+) max_fails", text_of("nginx.conf")) == [f"mfrank:{PORT}"] * 2
    assert f"EXPOSE {PORT}\n" in text_of("Dockerfile")
    assert f":{PORT}/" in compose()["mfrank"]["healthcheck"]["test"][-1]
    inner = re.search(r"listen (\d+);", text_of("nginx.conf"))
    assert inner
    assert compose()["nginx"]["ports"] == [f"80:{inner[1]}"]


def test_probes_ask_what_is_answered() -> None:
    container, asked = pods()["serve"]["containers"][0], client(model())
    probes = [container[f"{each}Probe"]["httpGet"] for each in ("startup", "liveness", "readiness")]
    assert {probe["port"] for probe in probes} == {"http"}
    paths = [probe["path"] for probe in probes]
    paths += re.findall(rf":{PORT}(/\w+)", compose()["mfrank"]["healthcheck"]["test"][-1])
    assert paths == ["/health", "/health", "/ready", "/ready"]
    for path in paths:
        assert asked.get(path).status_code == 200
    hidden = re.findall(r"location = (/\w+)", text_of("nginx.conf"))
    assert hidden == ["/metrics", "/health", "/rollback"]


def test_times_of_grace_are_longer_than_the_end_takes() -> None:
    graces = {
        "pod serve": pods()["serve"]["terminationGracePeriodSeconds"],
        "compose mfrank": compose()["mfrank"]["stop_grace_period"].removesuffix("s"),
        "systemd": unit()["TimeoutStopSec"],
    }
    for where, grace in graces.items():
        assert float(grace) > float(options(where)["--drain-seconds"]) + LONGEST_END, where
    assert unit()["KillMode"] == "mixed"  # else workers would get SIGTERM twice


def test_nobody_is_root_and_what_is_written_can_be() -> None:
    assert re.search(r"^USER 10001:10001$", text_of("Dockerfile"), re.MULTILINE)
    for pod in pods().values():
        (container,) = pod["containers"]
        assert pod["securityContext"]["runAsNonRoot"]
        assert pod["securityContext"]["runAsUser"] == 10001
        assert container["securityContext"]["readOnlyRootFilesystem"]
        mounts = {each["mountPath"]: each for each in container["volumeMounts"]}
        assert {each["name"] for each in pod["volumes"]} == {e["name"] for e in mounts.values()}
        _check_written(container["args"], [p for p, e in mounts.items() if not e.get("readOnly")])
    for name in "mfrank", "update":
        service = compose()[name]
        assert service["read_only"]
        written = [each for each in service["volumes"] if not each.endswith(":ro")]
        places = [each.split(":")[1] for each in written]
        _check_written(service["command"], [*places, *service["tmpfs"]])


def _check_written(command: list[str], places: list[str]) -> None:
    """Whether what a command writes is in folders that can be written."""
    assert "/tmp" in places
    flags = ["--journal", "--shown-file"] + ["--model"] * (command[0] == "update")
    written = [command[command.index(flag) + 1] for flag in flags if flag in command]
    assert written
    for path in written:
        assert any(path.startswith(f"{place}/") for place in places), path


@pytest.mark.skipif(shutil.which("nginx") is None, reason="needs nginx: apt-get install nginx")
def test_nginx_reads_its_file(tmp_path: Path) -> None:
    text = text_of("nginx.conf").replace("mfrank:", "127.0.0.1:")  # there is no such host here
    (tmp_path / "nginx.conf").write_text(text.replace("/tmp/", f"{tmp_path}/"))
    command = ["nginx", "-t", "-c", str(tmp_path / "nginx.conf")]
    told = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert told.returncode == 0, told.stderr
    assert "warn" not in told.stderr


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_reads_its_file(tmp_path: Path) -> None:
    text = text_of("mfrank.service").replace("/opt/mfrank/bin/mfrank", "/bin/true")
    (tmp_path / "mfrank.service").write_text(text)
    command = ["systemd-analyze", "verify", str(tmp_path / "mfrank.service")]
    told = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (told.returncode, told.stderr) == (0, "")
