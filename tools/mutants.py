"""Looks for code that no test sees: changes it in one place at a time, and runs tests on each change.

    nice -n 10 .venv/bin/python -m tools.mutants offsets_store --tests tests/offsets_store
    nice -n 10 .venv/bin/python -m tools.mutants spark_source/stream --tests tests/spark_source/stream --seeds 20

In a copy of git's index it runs those of `--tests` that need neither Spark nor Apache's servers, files with the changed
module's name first, then so many seeds of the simulation. What passes all is printed: if a guarantee rests on that
code, it needs a test or a line in tests/simulation/defences.py; otherwise the code may go. A folder may take hours:
`--share 0 4` takes each fourth change. Modules' top levels, texts, what errors say and log lines stay as they are.
"""

import argparse
import ast
import importlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from multiprocessing import get_context
from pathlib import Path
from typing import Any

LIGHT = ("-n0", "-xq", "-pno:cacheprovider", "--hypothesis-profile=fast", "-mnot (nightly or spark or apache)")
PAIRS = ("Eq NotEq", "Lt LtE", "Gt GtE", "Is IsNot", "In NotIn", "Add Sub", "FloorDiv Mult", "min max", "any all")
OTHER = {word: other for pair in PAIRS for word, other in (pair.split(), pair.split()[::-1])}
REMOVED = ast.Assign | ast.AugAssign | ast.Raise | ast.Delete | ast.Continue | ast.Break
LEFT = ("_log.", "strict=", "warnings.", "f'", 'f"')


def changes(node: Any, field: str) -> Iterator[ast.AST]:
    """What may stand instead of a node, which is another's `field`."""
    if isinstance(node, REMOVED) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
        yield ast.Pass()
    elif isinstance(node, ast.Compare):
        for at, op in enumerate(node.ops):
            ops = [*node.ops[:at], getattr(ast, OTHER[type(op).__name__])(), *node.ops[at + 1 :]]
            yield ast.Compare(node.left, ops, node.comparators)
    elif isinstance(node, ast.BoolOp):
        yield from (ast.BoolOp(node.op, [value for value in node.values if value is not left]) for left in node.values)
    elif isinstance(node, ast.BinOp) and type(node.op).__name__ in OTHER:
        yield ast.BinOp(node.left, getattr(ast, OTHER[type(node.op).__name__])(), node.right)
    elif isinstance(node, ast.Name) and node.id in OTHER:
        yield ast.Name(OTHER[node.id])
    elif isinstance(node, ast.Constant) and isinstance(node.value, int):
        yield ast.Constant(not node.value if isinstance(node.value, bool) else node.value + 1)
    elif field == "test" or (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)):
        yield ast.UnaryOp(ast.Not(), node)


def places(node: ast.AST, inside: bool = False) -> Iterator[tuple[Any, ast.AST]]:
    """The nodes in functions below this one, each with what may stand instead."""
    for field, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            left = isinstance(child, ast.arguments) or field in ("decorator_list", "annotation", "returns")
            if isinstance(child, ast.AST) and not left and not ast.unparse(child).startswith(LEFT):
                yield from ((child, new) for new in changes(child, field) if inside)
                if not isinstance(child, ast.Raise):
                    yield from places(child, inside or isinstance(child, ast.FunctionDef))


def changed(source: bytes, node: Any, new: ast.AST) -> bytes:
    """The file with `new` instead of the node."""
    lines = [0, *map(len, source.splitlines(keepends=True))]
    begin, end = sum(lines[: node.lineno]) + node.col_offset, sum(lines[: node.end_lineno]) + node.end_col_offset
    return source[:begin] + (b"pass" if isinstance(new, ast.Pass) else f"({ast.unparse(new)})".encode()) + source[end:]


def tested(tests: list[str], seeds: int) -> None:
    os.dup2(os.open("mutants.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
    os.dup2(1, 2)
    failed = importlib.import_module("pytest").main([*LIGHT, *tests])
    simulation = [sys.executable, "-m", "tests.simulation", "--seeds", str(seeds)]
    os._exit(failed or (seeds and subprocess.call(simulation)))


def passes(tests: list[str], seeds: int, seconds: float) -> bool:
    """Whether all pass in time, in a fork of this process, which has loaded what takes long."""
    child = get_context("fork").Process(target=tested, args=(tests, seeds))
    child.start()
    child.join(seconds)
    child.kill()
    child.join()
    return child.exitcode == 0


def main(code: list[Path], tests: list[Path], seeds: int, first: int, every: int) -> None:
    """Print which changes pass, in a folder with a copy of the tree."""
    for name in ("pytest", "pyarrow", "pyspark.sql.datasource", "deltalake"):
        importlib.import_module(name)
    every_test, began = list(map(str, tests)), time.monotonic()
    if not passes(every_test, seeds, 3600):
        sys.exit("the tests fail as they are:\n" + Path("mutants.log").read_text())
    limit = 3 * (time.monotonic() - began) + 20
    files = sorted(path for root in code for path in ([root] if root.is_file() else root.rglob("*.py")))
    jobs = [(path, node, new) for path in files for node, new in places(ast.parse(path.read_bytes()))]
    for number, (path, node, new) in list(enumerate(jobs))[first::every]:
        source = path.read_bytes()
        own = [str(test) for root in tests for test in root.rglob(f"test_*{path.stem}*.py")]
        path.write_bytes(changed(source, node, new))
        if (not own or passes(own, 0, limit)) and passes(every_test, seeds, limit):
            old = ast.unparse(node).partition("\n")[0]
            print(f"{number} of {len(jobs)}, {path}:{node.lineno}: {old}  ->  {ast.unparse(new)}", flush=True)
        path.write_bytes(source)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description=__doc__)
    parser.add_argument("code", nargs="+", type=Path, help="files and folders to change")
    parser.add_argument("--tests", nargs="+", type=Path, required=True, help="files and folders")
    parser.add_argument("--seeds", type=int, default=0, help="of the simulation")
    parser.add_argument("--share", type=int, nargs=2, default=(0, 1), metavar=("FIRST", "EVERY"))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as tree:
        subprocess.run(["git", "checkout-index", "--all", f"--prefix={tree}/"], check=True)
        os.chdir(tree)
        os.environ.update(PYTHONPATH=tree, PYTHONDONTWRITEBYTECODE="1", PYSPARK_PYTHON=sys.executable)
        sys.path[0], sys.dont_write_bytecode = tree, True
        sys.modules.pop("tools")
        main(given.code, given.tests, given.seeds, *given.share)
