import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from smg.protocol.selectors import Selector, SelectorError, Term, parse_selector

KEY_CHARACTERS = "ab/._-09AZ"
keys = st.text(KEY_CHARACTERS, min_size=1, max_size=4)
values = st.text('ab=!,()"\\ \té€😀\u3000', max_size=5)
terms = st.builds(Term, keys, st.lists(values, min_size=1, max_size=3).map(tuple), st.booleans())
selectors = st.builds(Selector, st.lists(terms, min_size=1, max_size=4).map(tuple))


def only(text):
    (term,) = parse_selector(text).terms
    return term


def failure(text):
    with pytest.raises(SelectorError) as refused:
        parse_selector(text)
    assert str(refused.value) == f"invalid selector at byte {refused.value.offset}: {refused.value.reason}"
    return refused.value.offset


def offset_of(text):
    """Where the problem of a text is, None if it has none."""
    try:
        parse_selector(text)
    except SelectorError as error:
        return error.offset
    return None


@pytest.mark.parametrize(
    ("text", "term"),
    [
        ("role=policy", Term("role", ("policy",))),
        ("role!=policy", Term("role", ("policy",), negated=True)),
        ("role in (policy,reward)", Term("role", ("policy", "reward"))),
        ("role notin (policy)", Term("role", ("policy",), negated=True)),
        ("role in(a)", Term("role", ("a",))),
        ("smg.ai/pool-1_x=p/1", Term("smg.ai/pool-1_x", ("p/1",))),
        ("in=x", Term("in", ("x",))),
        ("notin in (x)", Term("notin", ("x",))),
        ("a=b=c", Term("a", ("b=c",))),
        ("a=!b", Term("a", ("!b",))),
        ("a=b\\c", Term("a", ("b\\c",))),
        ("a in (=b)", Term("a", ("=b",))),
        ('a=""', Term("a", ("",))),
        ('a="=b"', Term("a", ("=b",))),
        ('a=" b, (c) "', Term("a", (" b, (c) ",))),
        (r'a="he said \"hi\" \\o/"', Term("a", (r'he said "hi" \o/',))),
        ('a in (b, "c d")', Term("a", ("b", "c d"))),
        ("a=\U0001f600é", Term("a", ("\U0001f600é",))),
    ],
)
def test_a_term_is_a_key_an_operator_and_values(text, term):
    assert only(text) == term


@pytest.mark.parametrize(
    "text",
    [" role = policy ", "role= policy", "\trole\n=\u00a0policy\u3000", "role in ( policy )", "role\tin\u3000(policy )"],
)
def test_white_space_around_the_parts_means_nothing(text):
    assert only(text) == Term("role", ("policy",))


def test_terms_are_separated_by_commas():
    assert parse_selector("a=b , c!=d,e in (f)").terms == (
        Term("a", ("b",)),
        Term("c", ("d",), negated=True),
        Term("e", ("f",)),
    )


@pytest.mark.parametrize(
    ("text", "offset"),
    [
        # a key is missing, or is none
        ("", 0),
        ("  ", 0),
        ("=x", 0),
        (" =x", 1),
        (",a=b", 0),
        ('"a"=b', 0),
        ("é=x", 0),
        ("a=b,", 4),
        ("a=b, ", 4),
        ("a=b,,c=d", 4),
        ("a=b, ,c=d", 5),
        ("a$b=x", 1),
        # the operator
        ("role", 4),
        ("role ", 4),
        ("role policy", 5),
        ("role ! = policy", 5),
        ("role IN (a)", 5),
        ("role inx", 5),
        ("role in", 5),
        ("role notin ", 5),
        ("in(x)", 2),
        ("a<b", 1),
        # the value
        ("role=", 5),
        ("role!= ", 6),
        ("role=,a=b", 5),
        ("a==b", 2),
        ("a= =b", 3),
        ("a!==b", 3),
        ("a=(b)", 2),
        ("a=b(c", 3),
        ("a=b)", 3),
        ("a=b c=d", 4),
        ('a=b"c"', 3),
        ('a="b"c', 5),
        # the list
        ("role in policy", 8),
        ("role in ()", 9),
        ("role in (", 9),
        ("role in (,a)", 9),
        ("role in (a", 10),
        ("role in (a ", 10),
        ("role in (a,)", 11),
        ("role in (a b)", 11),
        ("role in (a))", 11),
        ("role in (a) b", 12),
        # what is quoted
        ('a="', 3),
        ('a="b', 4),
        ('a in ("b', 8),
        (r'a="b\x"', 4),
        ('a="b\\', 4),
        (r'a="b\n"', 4),
    ],
)
def test_the_offset_is_that_of_the_problem(text, offset):
    assert failure(text) == offset


@pytest.mark.parametrize(
    ("text", "bytes_before"), [("role=é x", 8), ("a=€,=", 6), ("a=\U0001f600)", 6), ("a\u3000=\u3000(", 8)]
)
def test_offsets_are_in_bytes(text, bytes_before):
    assert failure(text) == bytes_before


@given(st.text('ab=!,()"\\ inoté€', max_size=12), st.sampled_from(["a=b,", "a=é,", 'a in ("€", 😀),']))
def test_terms_before_a_problem_move_it_by_their_bytes(text, before):
    offset = offset_of(text)
    if offset is not None:
        text.encode()[:offset].decode()  # a character begins there
        assert offset_of(before + text) == len(before.encode()) + offset


@given(selectors)
@example(Selector((Term("a", ("=b",)), Term("a", ("=b",), negated=True), Term("a", ("", '"\\')))))
def test_a_selector_prints_and_parses_back(selector):
    assert parse_selector(str(selector)) == selector


@given(selectors, st.text(" \t", max_size=2))
def test_space_around_a_selector_does_not_change_it(selector, space):
    assert parse_selector(f"{space}{selector}{space}") == selector


@given(st.text('ab=!,()"\\ inoté', max_size=14))
def test_whatever_parses_prints_as_the_same_selector(text):
    try:
        selector = parse_selector(text)
    except SelectorError:
        return
    assert parse_selector(str(selector)) == selector


def naive(term, labels):
    """Matching, spelled out."""
    if term.negated:
        return term.key not in labels or all(labels[term.key] != value for value in term.values)
    return term.key in labels and any(labels[term.key] == value for value in term.values)


few = st.sampled_from(["a", "b", "c", ""])
close_terms = st.builds(Term, st.sampled_from("ab"), st.lists(few, min_size=1).map(tuple), st.booleans())


@given(st.lists(close_terms, min_size=1, max_size=4), st.dictionaries(st.sampled_from("abc"), few))
def test_matching_agrees_with_a_naive_one(terms, labels):
    assert Selector(tuple(terms)).matches(labels) is all(naive(term, labels) for term in terms)


def test_a_missing_key_matches_only_what_is_negated():
    assert not parse_selector("a=b").matches({})
    assert not parse_selector("a in (b)").matches({})
    assert parse_selector("a!=b").matches({})
    assert parse_selector("a notin (b)").matches({})


def test_case_matters():
    assert not parse_selector("a=B").matches({"a": "b"})
    assert not parse_selector("A=b").matches({"a": "b"})


def test_a_long_selector_is_no_trouble():
    many = ", ".join(f"k{number} notin (a, b)" for number in range(5000))
    assert len(parse_selector(many).terms) == 5000
    assert failure("(" * 100_000) == 0
    assert failure('a="' + "\\\\" * 100_000) == 200_003
