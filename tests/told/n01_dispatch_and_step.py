import re


def told(shown: dict[str, str]) -> None:
    assert shown["dispatched-counts"] == "Counts(ready=3, delayed=1, reserved=0, failed=0)"
    assert shown["reserve"] == "Counts(ready=2, delayed=1, reserved=1, failed=0)"
    steps = ("finish", "step-mail", "step-label", "step-idle", "advance")
    assert [shown[id].split("(")[0] for id in steps] == ["Completed", "Retrying", "Retrying", "Idle", "Retrying"]
    assert re.findall(r"(\w+)\(job=(\d)", shown["drain"]) == [
        ("Retrying", "3"),
        ("Completed", "4"),
        ("Completed", "2"),
        ("Failed", "3"),
    ]
    assert shown["failed-counts"] == "Counts(ready=0, delayed=0, reserved=0, failed=1)"
    assert "id=5, name='print_label'" in shown["retry"]
    assert "attempts=0" in shown["retry"]
    assert "Completed(job=5" in shown["after-retry"]
    assert shown["same"] == "True"
    assert re.findall(r"\((\d), '(\w+)', '(\w+)'\)", shown["states"]) == [
        ("1", "pack", "done"),
        ("2", "mail", "delayed"),
        ("3", "print_label", "delayed"),
        ("4", "pack", "done"),
    ]
