"""requirements-dev.lock from pip's own report (`make lock`).

One line for each package, with the checksum of the file that was resolved; names of registries are left out.
"""

import json
import sys
from typing import Any


def line(item: dict[str, Any]) -> str:
    meta, archive = item["metadata"], item["download_info"].get("archive_info") or {}
    hashes = archive.get("hashes") or {}
    return f"{meta['name'].lower()}=={meta['version']} --hash=sha256:{hashes['sha256']}"


def main() -> None:
    report = json.load(sys.stdin)
    items = [item for item in report["install"] if "archive_info" in item["download_info"]]
    python = report["environment"]["python_full_version"]
    print(f"# made by `make lock` with Python {python} on {report['environment']['platform_machine']}; do not edit")
    print("# for that Python and machine alone; torch is the build for processors, which its own index has:")
    print(
        "#   pip install --require-hashes -r requirements-dev.lock --extra-index-url https://download.pytorch.org/whl/cpu"
    )
    print("#   pip install --no-deps --no-build-isolation .")
    print("\n".join(sorted(line(item) for item in items)))


if __name__ == "__main__":
    main()
