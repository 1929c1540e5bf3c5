"""The application's server: who is let in, what it reads, runs and gives away; the browser has tests of its own."""

import asyncio
import io
import json
import os
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import httpx
import nibabel
import numpy as np
import pytest

pytest.importorskip("starlette", reason="the extra app is not installed")

from app_files import TOKEN, running, small_scan
from bayesmri.api import reconstruct, simulate, undersample
from bayesmri.app.child import Child, ChildError
from bayesmri.app.house import new_folder
from bayesmri.app.jobs import Jobs
from bayesmri.app.library import Library, OutsideError, free_name, plain_name
from bayesmri.app.origin import origin_of
from bayesmri.app.settings import Settings, settings
from bayesmri.cli import main
from bayesmri.errors import ConfigError, DataError, FormatError
from bayesmri.machine.processes import this_process
from bayesmri.recon.acquisition import Sampling
from bayesmri.recon.files import reconstruct_file
from bayesmri.recon.request import Options
from doc_commands import commands
from report_files import write_recon


class Session:
    """A client that knows the token."""

    def __init__(self, address: str) -> None:
        self.host = address.split("/")[2]
        self.origin = {"origin": f"http://{self.host}"}
        self.client = httpx.Client(base_url=f"http://{self.host}", timeout=120, trust_env=False)

    def get(self, path: str, **params: Any) -> Any:
        return self.client.get(f"/{TOKEN}/api/{path}", params=params)

    def post(self, path: str, body: Any = None) -> Any:
        return self.client.post(f"/{TOKEN}/api/{path}", json=body or {}, headers=self.origin)

    def drop(self, data: bytes | Iterator[bytes], **params: str) -> Any:
        return self.client.post(f"/{TOKEN}/api/drop", content=data, params=params, headers=self.origin)

    def ended(self, number: int) -> dict[str, Any]:
        """The job, when it is over."""
        for _ in range(600):
            found: dict[str, Any] = self.get("job", id=number).json()
            if found["state"] not in ("waiting", "running"):
                return found
            time.sleep(0.1)
        raise AssertionError("the job did not end")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("app")
    small_scan(made / "scan.h5")
    reconstruct_file(made / "scan.h5", made / "scan.tv.recon.h5", Options(method="tv"), Sampling(acceleration=2.0))
    write_recon(made / "full.h5")
    return made


@pytest.fixture(scope="module")
def session(folder: Path) -> Iterator[Session]:
    with running(folder, "--upload-gb", "0.001") as address:
        found = Session(address)
        yield found
        found.client.close()


def test_another_address_needs_a_token() -> None:
    with pytest.raises(ConfigError, match="without a token"):
        settings([Path()], host="0.0.0.0")
    assert settings([Path()], host="0.0.0.0", token=TOKEN).token == TOKEN
    assert len(settings([Path()]).token) >= 32
    assert settings([Path()]).token != settings([Path()]).token
    with pytest.raises(ConfigError, match="16 to 200 letters"):
        settings([Path()], token="short")
    with pytest.raises(ConfigError, match="16 to 200 letters"):
        settings([Path()], token="a/../b-and-more-of-it")


def test_a_file_is_shown_at_once_and_its_folder_given(folder: Path) -> None:
    found = settings([folder / "full.h5"], token=TOKEN)
    assert found.folders == (folder.resolve(),)
    assert found.address(1).endswith(f":1/{TOKEN}/#0/full.h5")


def test_what_was_dropped_into_a_session_that_was_killed_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    mine, other = new_folder(), tmp_path / "bayesmri-app-of-somebody-else"
    (mine / "scan.h5").write_bytes(b"a patient")
    other.mkdir()
    me = this_process()
    dead = tmp_path / mine.name.replace(f"-{me.started}-", f"-{me.started - 1}-")
    (dead / "drops").mkdir(parents=True)
    (dead / "drops" / "scan.h5").write_bytes(b"a patient")
    last = new_folder()
    assert sorted(tmp_path.iterdir()) == sorted([mine, other, last])
    assert mine.joinpath("scan.h5").exists()
    assert last.stat().st_mode & 0o77 == 0


def test_the_commands_of_the_docs_start_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All but serving for ever, which other tests see."""
    begun: list[Settings] = []
    monkeypatch.setattr("bayesmri.app.serve.serve", lambda chosen, *, show, say: begun.append(chosen))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scans").mkdir()
    write_recon(tmp_path / "scans" / "scan.recon.h5")
    asked = [words[1:] for words in commands("app.md") if words[0] == "bayesmri"]
    assert len(asked) == 4
    for words in asked:
        assert main(words) == 0
    assert {one.folders for one in begun} == {(tmp_path.resolve() / "scans",)}
    assert [one.first for one in begun] == ["", "scan.recon.h5", "", ""]
    assert begun[3].host == "0.0.0.0"


def test_the_command_refuses_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["app", str(tmp_path), "--host", "0.0.0.0", "--no-open"]) == 2
    assert main(["app", str(tmp_path / "absent"), "--no-open"]) == 2
    (tmp_path / "file").write_text("")
    assert main(["app", str(tmp_path), str(tmp_path / "file"), "--no-open"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert "needs" not in lines[0]
    assert "token" in lines[0]


@pytest.mark.parametrize(
    ("path", "heads", "status"),
    [
        ("/", {}, 404),
        ("/wrong-token-wrong/", {}, 404),
        (f"/{TOKEN}/", {}, 200),
        (f"/{TOKEN}/", {"host": "localhost:1"}, 200),
        (f"/{TOKEN}/", {"host": "evil.example:8765"}, 421),
        (f"/{TOKEN}/", {"host": "127.0.0.1.evil.example"}, 421),
        (f"/{TOKEN}/", {"origin": "http://evil.example"}, 403),
        (f"/{TOKEN}/", {"origin": "null"}, 403),
        (f"/{TOKEN}/api/files", {"sec-fetch-site": "cross-site", "sec-fetch-mode": "cors"}, 403),
    ],
)
def test_only_this_page_is_let_in(session: Session, path: str, heads: dict[str, str], status: int) -> None:
    answer = session.client.get(path, headers=heads)
    assert answer.status_code == status
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"


def test_a_change_needs_the_origin(session: Session) -> None:
    assert session.client.post(f"/{TOKEN}/api/open", json={"key": "0/scan.h5"}).status_code == 403
    other = {"origin": "http://127.0.0.1:9999"}
    assert session.client.post(f"/{TOKEN}/api/open", json={"key": "0/scan.h5"}, headers=other).status_code == 403


def test_the_page_loads_nothing_from_elsewhere(session: Session) -> None:
    page = session.client.get(f"/{TOKEN}/").text
    script, style = (session.client.get(f"/{TOKEN}/{name}").text for name in ("app.js", "app.css"))
    for text in (page, script, style):
        assert "http://" not in text
        assert "https://" not in text
    assert "class Study" in script, "the viewer is that of the report"
    assert "innerHTML" not in script


def test_nothing_outside_the_folders_is_opened(tmp_path: Path, session: Session) -> None:
    root, other = tmp_path / "root", tmp_path / "other"
    for one in (root, other):
        one.mkdir()
        (one / "scan.h5").write_bytes(b"")
    (root / "link.h5").symlink_to(other / "scan.h5")
    (root / "linked").symlink_to(other)
    (root / "loop.h5").symlink_to(root / "loop.h5")
    (root / "near.h5").symlink_to(root / "scan.h5")
    library = Library((root.resolve(),), tmp_path / "drops")
    assert library.typed("scan.h5") == library.typed(str(root / "scan.h5")) == library.path("0/near.h5")
    for text in ("../other/scan.h5", str(other / "scan.h5"), "link.h5", "linked/scan.h5", "/etc/passwd"):
        with pytest.raises(OutsideError, match="outside of root"):
            library.typed(text)
    for key in ("0/../other/scan.h5", "0//etc/passwd", "0/link.h5", "1/scan.h5", "drop/../root/scan.h5", "", "x"):
        with pytest.raises(OutsideError):
            library.path(key)
    for text in ("absent.h5", "loop.h5", "a\0b"):
        with pytest.raises(FormatError):
            library.typed(text)
    assert [path.name for path in library.files()] == ["near.h5", "scan.h5"]
    for path in ("../../etc/passwd", "/etc/passwd"):
        answer = session.post("open", {"path": path})
        assert answer.status_code == 403
        assert "outside of" in answer.json()["error"]
    for key in ("0/../../etc/passwd", "0//etc/passwd"):
        assert session.get("study", key=key).status_code == 403
        assert session.get("download/h5", key=key).status_code == 403


def test_names_from_a_browser_are_plain(tmp_path: Path) -> None:
    assert plain_name("../../etc/cron.d/x.h5") == "x.h5"
    assert plain_name("C:\\data\\scan.h5") == "scan.h5"
    assert plain_name("..") == "dropped"
    assert "\x1b" not in plain_name("a\x1b[31m.h5")
    (tmp_path / "a.h5").write_text("")
    assert free_name(tmp_path, "a", ".h5").name == "a-2.h5"


def test_scans_and_results_are_told_apart(session: Session) -> None:
    found = session.get("files").json()
    assert {one["name"] for one in found["scans"]} == {"scan.h5"}
    results = {one["name"]: one for one in found["results"]}
    assert set(results) == {"scan.tv.recon.h5", "full.h5"}
    assert results["scan.tv.recon.h5"]["method"] == "tv"
    assert results["scan.tv.recon.h5"]["scan"] == "scan.h5"


def test_opening_a_scan_inspects_it(session: Session) -> None:
    found = session.post("open", {"path": "scan.h5"}).json()
    assert found["inspection"]["coils"] == 2
    assert found["inspection"]["kind"] == "k-space"
    broken = session.post("open", {"path": "absent.h5"})
    assert broken.status_code == 400
    assert "does not exist" in broken.json()["error"]


def test_a_study_holds_what_the_page_of_the_report_holds(session: Session) -> None:
    told = session.get("study", key="0/full.h5").json()
    assert told["total_slices"] == 3
    assert set(told["layers"]) == {"mean", "zero_filled", "deterministic", "std", "truth"}
    assert "data" not in told["layers"]["mean"]
    assert told["voxel"] == [2.0, 1.0, 5.0]
    part = session.get("slice", key="0/full.h5", slice=1).json()
    assert set(part["layers"]) == set(told["layers"])
    assert len(session.get("samples", key="0/full.h5", slice=1).json()) == told["samples"]["count"]
    for wrong in ("-1", "99", "x"):
        assert session.get("slice", key="0/full.h5", slice=wrong).status_code == 400


def test_a_run_ends_in_a_result_that_can_be_taken_away(session: Session, folder: Path) -> None:
    asked = {"method": "zero-filled", "samples": 0, "seed": 0, "visibility": ["lesion:2:0.5"]}
    job = session.post("run", {"key": "0/scan.h5", "options": asked, "sampling": {"acceleration": 2, "seed": 0}}).json()
    assert job["state"] in ("waiting", "running")
    made = session.ended(job["id"])
    assert made["state"] == "done", made["message"]
    assert made["done"] == made["total"] > 0
    path = folder / made["result"].removeprefix("0/")
    with h5py.File(path) as file:
        stored = file["reconstruction"][()]
        assert "lesion:2:0.5" in file["visibility"]
    assert session.get("download/h5", key=made["result"]).content == path.read_bytes()
    (folder / "taken.nii.gz").write_bytes(session.get("download/nifti", key=made["result"]).content)
    image = nibabel.load(folder / "taken.nii.gz")
    np.testing.assert_array_equal(np.moveaxis(np.asarray(image.dataobj), -1, 0), stored)
    (folder / "taken.nii.gz").unlink()
    archives = {kind: session.get(f"download/{kind}", key=made["result"]) for kind in ("maps", "dicom")}
    held = {kind: zipfile.ZipFile(io.BytesIO(one.content)).namelist() for kind, one in archives.items()}
    assert sum(name.endswith(".nii.gz") for name in held["maps"]) == 2, "the image and the visibility"
    assert sum("/mean/" in name and name.endswith(".dcm") for name in held["dicom"]) == len(stored)
    page = session.get("download/report", key=made["result"])
    assert page.text.startswith("<!doctype html>")
    assert "attachment" in page.headers["content-disposition"]
    assert session.get("download/exe", key=made["result"]).status_code == 400
    again = session.post("run", {"key": "0/scan.h5", "options": asked, "sampling": {"acceleration": 2}}).json()
    assert again["result"] != made["result"], "nothing is overwritten"
    session.post("cancel", {"id": again["id"]})


def test_cancel_kills_at_once_and_leaves_nothing(session: Session, folder: Path) -> None:
    before = set(folder.iterdir())
    asked = {"model": "tdv-r4", "samples": 64, "seed": 0}
    job = session.post("run", {"key": "0/scan.h5", "options": asked, "sampling": {"acceleration": 2}}).json()
    behind = session.post("run", {"key": "0/scan.h5", "options": asked, "sampling": {"acceleration": 2}}).json()
    assert session.post("cancel", {"id": behind["id"]}).json()["state"] == "cancelled"
    while session.get("job", id=job["id"]).json()["state"] == "waiting":
        time.sleep(0.05)
    began = time.monotonic()
    assert session.post("cancel", {"id": job["id"]}).json()["state"] == "cancelled"
    assert time.monotonic() - began < 20, "it does not wait for the work"
    assert session.post("cancel", {"id": 999}).status_code == 400
    assert set(folder.iterdir()) == before


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"model": "tdv-r4", "samples": 1}, "1 sample"),
        ({"method": "tv", "samples": 4}, "no posterior"),
        ({"method": "tv", "visibility": ["nonsense"]}, "template"),
        ({"method": "tv", "samples": "many"}, "expected a number"),
        ({"method": "tv", "strict": True}, "cannot set"),
        ("tv", "no table"),
    ],
)
def test_bad_settings_are_refused_before_anything_runs(session: Session, options: Any, words: str) -> None:
    answer = session.post("run", {"key": "0/scan.h5", "options": options})
    assert answer.status_code == 400
    assert words in answer.json()["error"]


def test_a_file_that_is_dropped_is_read_and_forgotten(session: Session, folder: Path) -> None:
    data = (folder / "scan.h5").read_bytes()
    told = session.drop(data, name="../mine.h5").json()
    assert told["name"] == "mine.h5"
    assert told["bytes"] == len(data)
    assert session.post("open", {"key": told["key"]}).json()["inspection"]["coils"] == 2
    assert not (folder / "mine.h5").exists(), "nothing is kept unless asked"
    kept = session.post("keep", {"key": told["key"]}).json()["key"]
    assert (folder / "mine.h5").read_bytes() == data
    assert kept == "0/mine.h5"
    (folder / "mine.h5").unlink()
    assert session.post("forget", {"key": "0/scan.h5"}).status_code == 400
    assert session.post("forget", {"key": told["key"]}).status_code == 200
    assert session.post("open", {"key": told["key"]}).status_code == 400
    assert (folder / "scan.h5").exists()


def test_what_is_too_large_or_no_scan_is_refused(session: Session) -> None:
    limit = 1_000_000
    assert session.drop(bytes(limit + 1), name="big.h5").status_code == 413

    def without_length() -> Iterator[bytes]:
        for _ in range(3):
            yield bytes(limit // 2)

    assert session.drop(without_length(), name="big.h5").status_code == 413
    assert session.drop(b"", name="empty.h5").status_code == 400
    told = session.drop(os.urandom(1000), name="noise.h5").json()
    answer = session.post("open", {"key": told["key"]})
    assert answer.status_code == 400
    assert "noise.h5" in answer.json()["error"]
    assert session.post("open", {"key": "x" * 70_000}).status_code == 413


def test_asking_gives_what_whatif_gives(session: Session, folder: Path) -> None:
    asked = {"key": "0/scan.tv.recon.h5", "x": 16, "y": 15, "r": 3, "contrast": 0.5, "slice": 0}
    told = session.post("ask/whatif", asked).json()
    out = folder.parent / f"{folder.name}.whatif.h5"
    words = ["whatif", folder / "scan.h5", "--plant", "16,15,3,0.5", "--slice", "0", "--method", "tv"]
    assert main([*map(str, words), "--acceleration", "2", "-o", str(out), "--json"]) == 0
    with h5py.File(out) as file:
        assert told["carried"] == pytest.approx(float(file["after"].attrs["carried"]), rel=1e-4)
    erased = session.post("ask/whatif", {**asked, "contrast": None}).json()
    assert erased["kind"] == "erase"
    seen = session.post("ask/visibility", {"key": asked["key"], "slice": 0, "template": "lesion:3:0.5"}).json()
    assert seen["template"] == "lesion:3:0.5"
    for wrong in ({**asked, "x": 500}, {**asked, "r": 0}, {**asked, "slice": 7}, {**asked, "key": "0/scan.h5"}):
        assert session.post("ask/whatif", wrong).status_code == 400


def test_a_result_without_its_scan_cannot_be_asked(session: Session) -> None:
    answer = session.post("ask/whatif", {"key": "0/full.h5", "x": 5, "y": 5, "r": 2, "contrast": 0.3, "slice": 0})
    assert answer.status_code == 400
    assert "checksums differ" in answer.json()["error"] or "reconstruct" in answer.json()["error"]
    assert session.post("ask/warm", {"key": "0/full.h5", "slice": 0}).status_code == 200, "nothing was asked yet"
    with pytest.raises(DataError, match="does not record"):
        origin_of({})
    known: dict[str, Any] = {"command": "recon", "config": {"method": "tv"}, "inputs": [{"name": "a", "sha256": "1"}]}
    assert origin_of(known).sums == ("1",)
    with pytest.raises(DataError, match="told by hand"):
        origin_of(known | {"config": {"method": "tv", "reading": {"axes": "row column"}}})
    assert origin_of(known | {"inputs": [*known["inputs"], {"name": "maps", "sha256": "2"}]}).others == {"2"}
    with pytest.raises(DataError, match="was a file"):
        origin_of({"command": "recon", "config": {"sampling": {"mask": "own.npy"}}, "inputs": [{"name": "a"}]})


def test_fifty_requests_at_once_are_all_answered(session: Session) -> None:
    async def many() -> list[int]:
        async def one(i: int) -> int:
            path = ("files", "about", "slice")[i % 3]
            params = {"key": "0/full.h5", "slice": i % 3}
            return int((await asyncio.to_thread(session.get, path, **params)).status_code)

        return await asyncio.gather(*map(one, range(50)))

    assert asyncio.run(many()) == [200] * 50


def test_a_child_that_dies_is_one_line_and_replaced() -> None:
    async def twice() -> tuple[str, Any]:
        child = Child("bayesmri.app.looking", "the reader")
        (await child.warm()).kill()
        try:
            await child.ask("inspect", path="/nowhere")
            raise AssertionError("it answered")
        except ChildError as error:
            said = str(error)
        try:
            return said, await child.ask("inspect", path="/nowhere")
        except ChildError as error:
            return said, str(error)
        finally:
            await child.end()

    died, answered = asyncio.run(twice())
    assert died.startswith("the reader was ended by the system")
    assert "/nowhere does not exist" in answered


def test_events_tell_of_every_job(folder: Path) -> None:
    """As the page hears them; the stream never ends by itself, so the first lines are read and left."""

    async def heard() -> list[str]:
        jobs = Jobs()
        working = asyncio.create_task(jobs.work())
        queue = jobs.listen()
        asked = {"path": str(folder / "absent.h5"), "out": str(folder / "absent.recon.h5")}
        jobs.add(
            scan="absent.h5", label="tv", asked={**asked, "options": {"method": "tv"}, "sampling": None}, result=""
        )
        states: list[str] = []
        while not states or states[-1] in ("waiting", "running"):
            told = await asyncio.wait_for(queue.get(), 60)
            json.dumps(told)
            states.append(told["state"])
        await jobs.end()
        working.cancel()
        return list(dict.fromkeys(states))

    assert asyncio.run(heard()) == ["waiting", "running", "failed"]


def test_a_result_shows_itself_in_notebooks() -> None:
    z = simulate("head", shape=(32, 36), coils=2, seed=1)
    result = reconstruct(undersample(z, 2), "zero-filled")
    html = result._repr_html_()
    assert html.startswith("<iframe")
    assert 'sandbox="allow-scripts"' in html
    assert "<" not in html.split("srcdoc=")[1].removesuffix("></iframe>"), "the page is escaped"
    assert "Content-Security-Policy" in html
    shown = result.view(show=False)
    try:
        host, token = shown.address.split("/")[2:4]
        found = httpx.get(f"http://{host}/{token}/api/files", trust_env=False, timeout=60).json()
        assert [one["name"] for one in found["results"]] == ["result.recon.h5"]
        assert shown.address.endswith("#0/result.recon.h5")
    finally:
        shown.close()
