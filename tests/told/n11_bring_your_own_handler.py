from ast import literal_eval


def told(shown: dict[str, str]) -> None:
    assert shown["prototype"].startswith("(Completed(")
    assert shown["payload"].count("Retrying(") == 2
    assert shown["payload"].count("Failed(") == 1
    assert "Completed(job=2" in shown["correct"]  # another id than the failed job had
    assert literal_eval(shown["night"]) == ({1: 1, 2: 2, 3: 3, 4: 2}, ["done", "done", "failed", "done"])
    assert literal_eval(shown["mend"]) == {1: 1, 2: 1, 3: 1, 4: 1}
    assert literal_eval(shown["work-result"]) == {
        "exit code": 0,
        "workers killed": 1,
        "orders": 11,
        "most invoices of an order": 1,
        "jobs left": 0,
    }
    assert literal_eval(shown["test"]) == {"invoice": "2 failed", "invoice_once": "2 passed"}
