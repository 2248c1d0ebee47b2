import re

ENDS = re.compile(r"(\w+)\((?:job=(\d).*?)?\bat=(\d+)\.0")


def told(shown: dict[str, str]) -> None:
    dispatched = re.findall(r"id=(\d).*?attempts=(\d), available_at=(\d+)", shown["dispatch"])
    assert dispatched == [("1", "0", "0"), ("2", "0", "0"), ("3", "0", "0"), ("4", "0", "20")]
    assert shown["reserve"] == "Counts(ready=2, delayed=1, reserved=1, failed=0)"
    assert ENDS.findall(shown["finish"]) == [("Completed", "1", "4")]
    assert ENDS.findall(shown["steps"]) == [("Retrying", "2", "5"), ("Retrying", "3", "7"), ("Idle", "", "7")]
    assert "tries=3, backoff=(10.0, 60.0, 300.0)" in shown["policy"]
    assert ENDS.findall(shown["advance"]) == [("Retrying", "2", "16")]
    assert ENDS.findall(shown["drain"]) == [
        ("Retrying", "3", "19"),
        ("Completed", "4", "24"),
        ("Completed", "2", "77"),
        ("Failed", "3", "81"),
    ]
    assert "FailedJob(id=1, name='print_label'" in shown["failed"]
    assert re.findall(r"id=5, name='print_label', .*attempts=0, available_at=100", shown["retry"])
    assert ENDS.findall(shown["after-retry"]) == [("Completed", "5", "102")]
    assert shown["same"] == "True"
    states = re.findall(r"\((\d), '(\w+)', '(\w+)'\)", shown["try-moments"])
    assert states == [
        ("1", "pack", "done"),
        ("2", "mail", "delayed"),
        ("3", "print_label", "delayed"),
        ("4", "pack", "done"),
    ]
