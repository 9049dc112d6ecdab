from pathlib import Path

import pytest

from headwater.flow.objects.bucket_objects import BucketObjects
from headwater.flow.objects.folder_objects import FolderObjects
from headwater.flow.objects.objects import Objects
from tests.contracts.objects import ObjectsContract


class TestFolder(ObjectsContract):
    @pytest.fixture
    def objects(self, tmp_path: Path) -> Objects:
        return FolderObjects(str(tmp_path / "shared" / "shop"))


class TestS3(ObjectsContract):
    @pytest.fixture
    def objects(self, s3: str) -> Objects:
        return BucketObjects(s3)
