"""The one JSON file of a check."""
import json
import re

from gpu.limits import ratios


def default_file(check):
    name = check.report.get("device", {}).get("name", "absent") if check.has_gpu() else "absent"
    return check.root / "benchmarks" / "results" / f"gpu-{re.sub('[^a-z0-9]+', '-', name.lower())}.json"


def write(check, rows, file):
    """The exit code: 0 if no part failed. A ratio that is not reached is a finding, not a failure."""
    failed = [row["part"] for row in rows if row["outcome"] == "failed"]
    outcome = "failed" if failed else "passed" if check.has_gpu() else "passed, device cuda absent"
    whole = {"outcome": outcome, "parts": rows, "ratios": ratios(check.report), **check.report}
    file = file or default_file(check)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(whole, indent=1) + "\n")
    for row in whole["ratios"]:
        print("{what:60}{value:10.3f}".format(**row) + (f"   wanted {row['wanted']:g}" if "wanted" in row else ""))
    print(f"{whole['outcome']}{': ' if failed else ''}{', '.join(failed)}; see {file}")
    return 1 if failed else 0
