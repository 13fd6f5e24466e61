"""Lints and renders the Helm chart of `mimir cluster init` with Helm's own library, and compares it with the manifests.

Usage: check.py CLUSTER-FOLDER
"""

import sys
from pathlib import Path

import helm_python as helm
import yaml

folder = Path(sys.argv[1])
chart_folder = str(folder / "helm" / "mimir")
failures = []


def check(holds, text):
    if not holds:
        failures.append(text)


def objects(text):
    parsed = [found for found in yaml.safe_load_all(text) if found]
    return {f"{found['kind']}/{found['metadata']['name']}": found for found in parsed}


def without_helm(value):
    """Returns the object without the labels and annotations that only Helm needs."""
    if isinstance(value, dict):
        left = {
            key: without_helm(inner)
            for key, inner in value.items()
            if not key.startswith(("helm.sh/", "checksum/")) and (key, inner) != ("app.kubernetes.io/managed-by", "Helm")
        }
        return {key: inner for key, inner in left.items() if (key, inner) != ("annotations", {})}
    return [without_helm(inner) for inner in value] if isinstance(value, list) else value


# 1 is a hint, 2 a warning, 3 an error.
for message in helm.lint(chart_folder)["messages"]:
    check(message["severity"] < 2, f"helm lint: {message}")

with helm.Chart.load(chart_folder) as chart:

    def render(values):
        manifests = chart.render(values, name="mimir", namespace="default")
        found = {}
        for name, text in manifests.items():
            if not name.endswith("NOTES.txt"):
                found.update(objects(text))
        return found

    plain = objects((folder / "kubernetes" / "mimir.yaml").read_text())
    default = render({})
    check(set(default) == set(plain), f"objects differ: {sorted(set(default) ^ set(plain))}")
    for name in set(default) & set(plain):
        check(without_helm(default[name]) == without_helm(plain[name]), f"{name} differs from kubernetes/mimir.yaml")

    other = render(
        {
            "imagePullSecrets": [{"name": "registry"}],
            "front": {"hosts": ["mimir.example"], "autoscaling": {"enabled": False}, "replicas": 5},
            "worker": {"args": ["--label", "zone=eu"], "workspaceClaim": "code", "autoscaling": {"enabled": False}},
            "networkPolicy": {"enabled": False},
        }
    )
    missing = {kind.split("/")[0] for kind in default} - {kind.split("/")[0] for kind in other}
    check(missing == {"HorizontalPodAutoscaler", "NetworkPolicy"}, f"kinds that are off: {missing}")
    check(other["Deployment/mimir-front"]["spec"]["replicas"] == 5, "replicas of the front")
    worker = other["Deployment/mimir-worker"]["spec"]["template"]["spec"]
    check(worker["containers"][0]["args"][-2:] == ["--label", "zone=eu"], "arguments of the worker")
    check(worker["imagePullSecrets"] == [{"name": "registry"}], "pull secrets of the worker")
    check(worker["volumes"][1]["persistentVolumeClaim"] == {"claimName": "code"}, "claim of the worker")

    for name in ("front", "worker"):
        container = default[f"Deployment/mimir-{name}"]["spec"]["template"]["spec"]["containers"][0]
        ports = {port["name"] for port in container["ports"]}
        for probe in ("livenessProbe", "readinessProbe"):
            check(container[probe]["httpGet"]["port"] in ports, f"{probe} of the {name}")

    for bad in ({"worker": {"replicas": -1}}, {"worker": {"nope": 1}}, {"nats": {"servers": 0}}):
        try:
            chart.validate_schema(bad)
            check(False, f"the schema accepts {bad}")
        except helm.HelmError:
            pass

for failure in failures:
    print(f"error: {failure}", file=sys.stderr)
print(f"{folder.name}: Helm {helm.helm_sdk_version()}, {len(default)} objects, {len(failures)} failures")
sys.exit(bool(failures))
