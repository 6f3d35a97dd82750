"""Results of long programs: a CSV file with a line per finished cell."""

import csv


def read_done(path):
    """Finished cells of the CSV file by key."""
    if not path.exists():
        return {}
    with path.open(newline="") as file:
        return {row["key"]: row for row in csv.DictReader(file)}


def add_done(path, row):
    """Add a finished cell, a dict with "key", to the CSV file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, list(row))
        if new:
            writer.writeheader()
        writer.writerow(row)
