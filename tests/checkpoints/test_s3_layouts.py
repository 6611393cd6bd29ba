"""Every layout on an object store, served by moto on the loopback address."""

from collections.abc import Iterator
from typing import Any

import pytest
from checkpoint_folders import KITS, Kit, lay

from orchestrator.checkpoints import check
from orchestrator.checkpoints._digest import write_digests
from orchestrator.checkpoints._retention import remove

pytest.importorskip("s3fs", reason="s3fs is not installed (extra: s3)")
botocore = pytest.importorskip("botocore.exceptions", reason="botocore is not installed")
server = pytest.importorskip("moto.server", reason="moto is not installed (pip install 'moto[server]')")


@pytest.fixture(scope="module")
def s3() -> Iterator[Any]:
    import s3fs

    moto = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    moto.start()
    host, port = moto.get_host_and_port()
    # A listing cache of its own, as a supervisor would hold it for hours.
    yield s3fs.S3FileSystem(key="k", secret="s", endpoint_url=f"http://{host}:{port}", skip_instance_cache=True)
    moto.stop()


@pytest.fixture
def root(s3, request) -> str:
    bucket = f"b{abs(hash(request.node.name))}"
    s3.mkdir(bucket)
    return f"{bucket}/run"


@pytest.mark.parametrize("kit", KITS, ids=[kit.name for kit in KITS])
def test_found_verified_damaged_pointed_to_and_removed(s3: Any, root: str, kit: Kit):
    assert kit.layout.scan(s3, root) == []
    for step in (100, 200):
        lay(s3, f"{root}/{kit.base(step)}", kit.files(step))
    if kit.pointer:
        lay(s3, f"{root}/{kit.pointer[0]}", {"": kit.pointer[1](200).encode()})
    found = kit.layout.scan(s3, f"s3://{root}/")
    assert [(each.step, each.path, each.complete) for each in found] == [
        (step, f"{root}/{kit.base(step)}", True) for step in (100, 200)
    ]
    assert [each.why for each in check(kit.layout, s3, found)] == ["", ""]

    assert write_digests(s3, found[1].path) == ""
    data = bytearray(kit.files(200)[kit.data])
    data[len(data) // 2] ^= 1
    lay(s3, found[1].path, {kit.data: bytes(data)})
    assert kit.layout.verify(s3, found[1].path, full=True).endswith("its digest differs")
    lay(s3, found[1].path, {kit.data: bytes(data[: len(data) // 2])})
    assert [each.complete for each in check(kit.layout, s3, kit.layout.scan(s3, root))] == [True, False]

    kit.layout.point_to(s3, root, found[0])
    if kit.pointer:
        assert s3.cat_file(f"{root}/{kit.pointer[0]}").decode() == kit.pointer[1](100)
    assert len(kit.layout.scan(s3, root)) == 2, "nothing is moved"
    for each in found:
        remove(s3, each)
    assert kit.layout.scan(s3, root) == []
    s3.invalidate_cache()
    assert [path for path in s3.find(root) if not kit.pointer or not path.endswith(kit.pointer[0])] == []


def test_a_storage_that_refuses_is_no_verdict_about_a_checkpoint(s3: Any, root: str):
    import s3fs

    lay(s3, f"{root}/step-1", KITS[0].files(1))
    refused = s3fs.S3FileSystem(key="k", secret="s", endpoint_url="http://127.0.0.1:9", skip_instance_cache=True,
                                config_kwargs={"retries": {"max_attempts": 0}, "connect_timeout": 1})  # fmt: skip
    with pytest.raises(botocore.EndpointConnectionError):
        KITS[0].layout.verify(refused, f"{root}/step-1")
