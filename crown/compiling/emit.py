"""Kernels as objects for the linker: Numba's code, and entries that take the arguments as words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba.core import types
from numba.core.registry import cpu_target

from crown.compiling.build import features
from crown.compiling.dispatch import compiled_alone
from crown.compiling.library import stamp
from crown.compiling.warm import all_variants
from crown.kernels.jit import declared

_WORD, _BYTE, _STATUS = ir.IntType(64), ir.IntType(8).as_pointer(), ir.IntType(32)
_ENTRY = ir.FunctionType(_STATUS, [_WORD.as_pointer(), _BYTE, _BYTE.as_pointer()])
_LETTERS = {types.int64: "i", types.float64: "d", types.boolean: "l", types.none: "n"}


def emit_share(folder: str, processor: str, share: str, shares: str) -> None:
    """Writes the objects of one share of the kernel modules to a folder, each with a line for the table of entries. The
    ``share``-th of ``shares`` shares has every ``shares``-th module.

    Numba compiles for the processor that ``NUMBA_CPU_NAME`` names.
    """
    emitter = Emitter(processor)
    variants = all_variants()
    modules = sorted({name.rpartition(".")[0] for name, _ in variants})
    for number, (name, variant) in enumerate(variants):
        if modules.index(name.rpartition(".")[0]) % int(shares) == int(share):
            compiled = compiled_alone(declared[name][0], variant)
            entry = f"crown_entry_{number}"
            Path(folder, f"{number}.o").write_bytes(emitter.kernel(compiled, entry))
            line = f"{name} {variant} {letters_of(compiled.signature.return_type)} {entry}"
            Path(folder, f"{number}.entry").write_text(line)


def emit_table(folder: str, processor: str) -> None:
    """Writes the object of the table of all entries whose objects are in the folder, with the stamp."""
    lines = [file.read_text().split(" ") for file in sorted(Path(folder).glob("*.entry"))]
    Path(folder, "table.o").write_bytes(Emitter(processor).table([(*line,) for line in lines]))


def letters_of(result: Any) -> str:
    """Returns a letter for each word of a kernel's result; see ``native.c``."""
    parts = tuple(getattr(result, "types", (result,)))
    letters = "".join(_LETTERS[types.unliteral(one)] for one in parts)
    assert len(parts) == 1 or "l" not in letters, "each part of a result is a word"
    return letters


class Emitter:
    """Makes objects for one processor."""

    def __init__(self, processor: str) -> None:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
        self.triple = "aarch64-unknown-linux-gnu" if processor == "aarch64" else "x86_64-unknown-linux-gnu"
        name = "generic" if processor == "aarch64" else processor
        target = llvm.Target.from_triple(self.triple)
        self._machine = target.create_target_machine(
            cpu=name, features=features(processor), opt=3, reloc="pic", codemodel="default"
        )

    def kernel(self, compiled: Any, entry: str) -> bytes:
        """Returns the object of a compiled kernel with its entry ``entry``, the only exported symbol."""
        module = llvm.parse_bitcode(compiled.library._final_module.as_bitcode())
        module.link_in(llvm.parse_assembly(str(_entry(compiled.fndesc, entry))))
        for one in module.functions:
            if not one.is_declaration and one.name != entry:
                one.linkage = "internal"
        for one in module.global_variables:
            if not one.is_declaration and one.name.startswith("_ZN08NumbaEnv"):
                one.linkage = "internal"  # holds Numba's Python objects, which are never read
        return self._object(module)

    def table(self, lines: list[tuple[str, ...]]) -> bytes:
        """Returns the object of the table: name, letters of parameters and result, and entry, for each variant."""
        module = ir.Module("table")
        _text(module, stamp(), "crown_stamp")
        row = ir.LiteralStructType([_BYTE] * 3 + [_ENTRY.as_pointer()])
        rows = []
        for *texts, entry in lines:
            function = ir.Function(module, _ENTRY, entry)
            function.attributes.add("nounwind")
            rows.append(row([*(_text(module, text).bitcast(_BYTE) for text in texts), function]))
        rows.append(row([_BYTE(None)] * 3 + [_ENTRY.as_pointer()(None)]))
        table = ir.GlobalVariable(module, ir.ArrayType(row, len(rows)), "crown_entries")
        table.initializer, table.global_constant = ir.Constant(table.value_type, rows), True
        _define_ldexp(module)
        return self._object(llvm.parse_assembly(str(module)))

    def _object(self, module: Any) -> bytes:
        module.triple, module.data_layout = self.triple, str(self._machine.target_data)
        module.verify()
        return bytes(self._machine.emit_object(module))


def _entry(description: Any, name: str) -> ir.Module:
    """Returns a module with an entry that converts its words to the parameters of a compiled function, and calls it."""
    module = ir.Module(name)
    convention = cpu_target.target_context.call_conv
    taken = convention.get_function_type(description.restype, description.argtypes)
    called = ir.Function(module, taken, description.llvm_func_name)
    function = ir.Function(module, _ENTRY, name)
    words, result, raised = function.args
    builder = ir.IRBuilder(function.append_basic_block())
    given = [builder.bitcast(result, taken.args[0]), builder.bitcast(raised, taken.args[1])]
    for number, wanted in enumerate(taken.args[2:]):
        word = builder.load(builder.gep(words, [_WORD(number)]))
        if isinstance(wanted, ir.PointerType):
            given.append(builder.inttoptr(word, wanted))
        elif isinstance(wanted, ir.DoubleType):
            given.append(builder.bitcast(word, wanted))
        else:
            given.append(word if wanted == _WORD else builder.trunc(word, wanted))
    builder.ret(builder.call(called, given))
    return module


def _define_ldexp(module: ir.Module) -> None:
    """Defines the only function of Numba's own library that kernels call, with the C library's function."""
    taken = ir.FunctionType(ir.DoubleType(), [ir.DoubleType(), ir.IntType(32)])
    builder = ir.IRBuilder(ir.Function(module, taken, "numba_ldexp").append_basic_block())
    builder.ret(builder.call(ir.Function(module, taken, "ldexp"), builder.function.args))


def _text(module: ir.Module, text: str, name: str = "") -> ir.GlobalVariable:
    """Returns a zero-terminated constant text of a module."""
    held = bytearray(text.encode() + b"\0")
    made = ir.GlobalVariable(module, ir.ArrayType(ir.IntType(8), len(held)), name or module.get_unique_name("text"))
    made.initializer, made.global_constant = ir.Constant(made.value_type, held), True
    if not name:
        made.linkage = "private"
    return made
