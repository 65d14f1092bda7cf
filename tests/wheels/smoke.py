"""What a new user does first, with nothing but the base installed; run in an empty folder."""

import contextlib
import subprocess

import crown

assert "site-packages" in crown.__file__, crown.__file__
schema = {"orders": {"id": "int64", "shop": "string", "amount": "decimal(10,2)"}}
query = "SELECT shop, COUNT(*) AS n, SUM(amount) AS total FROM orders GROUP BY shop"

view = crown.view(query, schema)
assert view.apply({"orders": [(1, "a", "1.50"), (2, "b", "2.00")]}).num_rows == 2
assert view.apply({"orders": [{"id": 1, "shop": "a", "amount": "1.50", "_weight": -1}]}).to_pylist()[0]["_weight"] == -1
assert [row["shop"] for row in view] == ["b"]
assert "verdict" in view.explain()
view.save("saved.crown")
assert crown.load("saved.crown").count() == 1

for batches in range(2):
    with crown.open(query, "kept", schema) as kept:
        assert kept.batches == batches
        kept.update({"orders": [(batches, "a", "1.00")]})

said = ""
try:
    crown.view("SELECT nothing FROM orders", schema)
except crown.CrownError as error:
    said = str(error)
assert "nothing" in said

with contextlib.suppress(crown.MissingPackageError):
    _ = crown.spark.maintain
    raise AssertionError("Spark is not installed, and was not missed")


def command(*words: str, code: int = 0) -> str:
    """Returns what the command prints."""
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


assert command("crown", "--version").strip() == f"crown {crown.__version__}"
assert command("python", "-m", "crown", "--version") == command("crown", "--version")
command("crown", "init", "first")
example = [
    "--schema",
    "first/schema.json",
    "--input",
    "customers=first/customers.csv",
    "--input",
    "orders=first/orders.csv",
]
assert "country=NL" in command("crown", "run", "first/query.sql", *example, "--output", "-")
command("crown", "explain", "first/query.sql", "--schema", "first/schema.json", "-o", "plan.html")
command("crown", "check", "saved.crown")
assert "crown-ivm[spark]" in command("crown", "submit", "q", "--input", "g=x", code=2)
command("python", "first/example.py")
