"""The functions of C++ sources in this project's style: their names, arguments and lines.

No parser of C++: it reads tokens and matches brackets, which is enough for code that clang-format
has written and that has no macros with unmatched brackets.
"""

import re
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field

__all__ = ["CppFunction", "functions_in"]

_TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)
    |(?P<raw>R"(?P<mark>[^(\s]*)\(.*?\)(?P=mark)")
    |(?P<text>"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+')
    |(?P<directive>^[ \t]*\#(?:\\\n|[^\n])*)
    |(?P<word>[A-Za-z_][\w]*|[0-9][\w.']*)
    |(?P<sign>::|->|&&|\|\||<=|>=|==|!=|<<|[-+*/%&|^]=|\S)""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_PAIRS = {"(": ")", "[": "]", "{": "}"}
_SCOPES = {"namespace", "class", "struct", "union"}
_NO_NAMES = {"alignas", "decltype", "explicit", "noexcept", "requires", "sizeof", "static_assert"}


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    line: int


@dataclass(frozen=True, slots=True)
class CppFunction:
    """A function, or a declaration of one.

    Attributes:
        name: with that of its class, as in `Planner::step`; "" of a lambda.
        line: where it begins.
        arguments: how many it has, besides `self`.
        lines: from there to its last bracket; 0 of a declaration.
        said: whether a comment stands directly above it.
    """

    name: str
    line: int
    arguments: int
    lines: int
    said: bool


@dataclass(slots=True)
class _Source:
    """Tokens of a file, and the last lines of its comments that have a line for themselves."""

    tokens: list[_Token] = field(default_factory=list)
    comments: set[int] = field(default_factory=set)

    @staticmethod
    def of(text: str) -> "_Source":
        made, line, done = _Source(), 1, 0
        for found in _TOKEN.finditer(text):
            line += text.count("\n", done, found.start())
            done = found.start()
            if found["comment"]:
                if not text[text.rfind("\n", 0, done) + 1 : done].strip():
                    made.comments.add(line + found[0].count("\n"))
            elif found["text"] or found["raw"]:
                made.tokens.append(_Token('""', line))
            elif not found["directive"]:
                made.tokens.append(_Token(found[0], line))
        return made

    def match(self, at: int) -> int:
        """The place of the bracket that closes the one at this place."""
        waiting: list[str] = []
        for place in range(at, len(self.tokens)):
            text = self.tokens[place].text
            if text in _PAIRS:
                waiting.append(_PAIRS[text])
            elif text in _PAIRS.values():
                if text != waiting.pop():
                    raise ValueError(f"line {self.tokens[place].line}: {text} closes nothing")
                if not waiting:
                    return place
        raise ValueError(f"line {self.tokens[at].line}: {self.tokens[at].text} is not closed")

    def match_angle(self, at: int) -> int:
        """The place of the `>` that closes the `<` at this place."""
        depth, place = 0, at
        while place < len(self.tokens):
            text = self.tokens[place].text
            if text in _PAIRS:
                place = self.match(place)
            depth += {"<": 1, ">": -1}.get(text, 0)
            if depth == 0:
                return place
            place += 1
        raise ValueError(f"line {self.tokens[at].line}: < is not closed")

    def count_arguments(self, first: int, last: int) -> int:
        """Arguments between two parentheses."""
        inner = [token.text for token in self.tokens[first + 1 : last]]
        if not inner or inner == ["void"]:
            return 0
        count, place = 1, first + 1
        while place < last:
            text = self.tokens[place].text
            if text in _PAIRS:
                place = self.match(place)
            elif text == "<":
                place = self.match_angle(place)
            count += text == ","
            place += 1
        return count


def functions_in(text: str) -> list[CppFunction]:
    """All functions of a file that stand at the level of a namespace or class, and all lambdas.

    Raises:
        ValueError: brackets do not match.
    """
    source = _Source.of(text)
    found = list(_scope(source, 0, len(source.tokens), ""))
    return found + list(_lambdas(source))


def _scope(source: _Source, first: int, last: int, inside: str) -> Iterator[CppFunction]:
    """What is between two places, one declaration after the other."""
    at = first
    while at < last:
        text = source.tokens[at].text
        following = source.tokens[at + 1].text if at + 1 < last else ""
        if text == ";" or (text in {"public", "private", "protected"} and following == ":"):
            at += 1 + (text != ";")
            continue
        at = yield from _declaration(source, at, last, inside)


def _declaration(
    source: _Source, first: int, last: int, inside: str
) -> Generator[CppFunction, None, int]:
    """One declaration; returns the place after it."""
    tokens = source.tokens
    head, at, call, value, listed = first, first, 0, False, False
    while tokens[head].text == "template":
        head = source.match_angle(head + 1) + 1
    at = head
    scope = next((t for t in tokens[head : head + 2] if t.text in _SCOPES), None)
    while at < last:
        text = tokens[at].text
        if text == ";":
            break
        if text == "(":
            end = source.match(at)
            before = tokens[at - 1].text
            if not call and not value and before not in _NO_NAMES and at > head:
                call = at if tokens[end + 1].text != "(" else 0  # operator()(...)
            at = end
        elif text == "[":
            at = source.match(at)
        elif text == "<" and tokens[at - 1].text != "operator":
            at = source.match_angle(at)
        elif text == "=" and tokens[at - 1].text != "operator" and not call:
            value = True
        elif text == ":" and call:
            listed = True
        elif text == "{":
            end = source.match(at)
            if call and not (listed and _is_value(tokens, at)):
                yield _function(source, first, call, end, inside)
                return end + 1
            if scope is not None and not call and not value:
                named = "" if scope.text == "namespace" else _name_of_scope(source, head, at)
                yield from _scope(source, at + 1, end, named)
                if scope.text == "namespace":
                    return end + 1
            at = end
        at += 1
    if call:
        yield _function(source, first, call, 0, inside)
    return at + 1


def _is_value(tokens: list[_Token], at: int) -> bool:
    """Whether this brace, after the colon of a constructor, begins the value of a member."""
    before = tokens[at - 1].text
    return before == ">" or re.fullmatch(r"\w+", before) is not None


def _name_of_scope(source: _Source, first: int, last: int) -> str:
    """The name of a class: the last word before its bases, without template arguments."""
    words, at = [], first
    while at < last and source.tokens[at].text != ":":
        text = source.tokens[at].text
        if text == "<":
            at = source.match_angle(at)
        elif text in _PAIRS:
            at = source.match(at)
        elif text != "final":
            words.append(text)
        at += 1
    return words[-1]


def _function(source: _Source, first: int, call: int, end: int, inside: str) -> CppFunction:
    """The function whose arguments begin at `call`, and whose last bracket is at `end`."""
    tokens, at, name = source.tokens, call - 1, ""
    if tokens[at].text == ")":  # operator()(...)
        name, at = "operator()", at - 3
    while at >= first:  # backwards over `Class<Id>::name`, `~Class` and `operator==`
        text = tokens[at].text
        if text == ">" and name.startswith("::"):
            at = next(n for n in range(at, first, -1) if _opens(source, n, at)) - 1
            continue
        if name and not name.startswith(("::", "~")) and text not in {"::", "~", "operator"}:
            break
        name = text + name
        at -= 1
    if "::" not in name and inside:
        name = f"{inside}::{name}"
    line = tokens[first].line
    lines = tokens[end].line - line + 1 if end else 0
    last = source.match(call)
    itself = any(tokens[n].text == "self" and tokens[n + 1].text == "," for n in range(call, last))
    count = source.count_arguments(call, last) - itself
    return CppFunction(name, line, count, lines, line - 1 in source.comments)


def _opens(source: _Source, at: int, end: int) -> bool:
    return source.tokens[at].text == "<" and source.match_angle(at) == end


def _lambdas(source: _Source) -> Iterator[CppFunction]:
    """Functions without a name; their lines are those of the function around them."""
    for at, token in enumerate(source.tokens):
        before = source.tokens[at - 1].text
        indexed = before in {"]", ")", "["} or (re.fullmatch(r"\w+", before) and before != "return")
        if token.text != "[" or indexed:
            continue
        call = source.match(at) + 1
        if call < len(source.tokens) and source.tokens[call].text == "(":
            count = source.count_arguments(call, source.match(call))
            yield CppFunction("", token.line, count, 0, True)
