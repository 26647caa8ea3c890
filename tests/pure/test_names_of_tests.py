"""The classes that a test of the suite is made of share one object, so they share its names."""

import ast
from pathlib import Path

import assay

LIBRARY = Path(assay.__file__).parent


def test_no_class_hides_the_method_of_another_behind_a_value():
    methods, values = set(), set()
    rooms = ("run", "fleet", "gpu", "opinions")
    for path in (path for room in rooms for path in LIBRARY.joinpath(room).glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                inside = [each for each in node.body if isinstance(each, ast.FunctionDef)]
                methods |= {each.name for each in inside if not each.decorator_list}
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                values |= {node.attr} if ast.unparse(node.value) == "self" else set()
    assert not methods & values
