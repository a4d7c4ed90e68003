from smg.fleet.structures.node_table import NO_NODE, NodeTable


def test_a_split_puts_the_new_node_between_parent_and_child():
    table = NodeTable(stride=1)
    root = table.root("")
    lower = table.add(root, "abcdef")
    table.holders[lower]["http://a"] = 7
    upper = table.split(lower, 2)
    assert table.children == {(root, "a"): upper, (upper, "c"): lower}
    assert (table.edges[upper], table.edges[lower]) == ("ab", "cdef")
    assert (table.ends[upper], table.ends[lower]) == (2, 6)
    assert (table.parents[lower], table.parents[upper], table.parents[root]) == (upper, root, NO_NODE)
    assert table.holders[upper] == {"http://a": 7}
    assert table.holders[upper] is not table.holders[lower]
    assert list(table.fanouts) == [1, 0, 1]


def test_the_number_of_a_removed_node_is_used_again_for_a_clean_one():
    table = NodeTable(stride=1)
    root = table.root("")
    gone = table.add(root, "abc")
    table.holders[gone]["http://a"] = 1
    assert table.remove(gone) == root
    assert len(table) == 1
    again = table.add(root, "xy")
    assert again == gone
    assert (table.edges[again], table.holders[again], table.fanouts[again]) == ("xy", {}, 0)
    assert table.children == {(root, "x"): again}


def test_a_root_has_no_parent():
    table = NodeTable(stride=4)
    root = table.root(b"")
    page = table.add(root, b"aaaabbbb")
    assert table.is_root(root)
    assert not table.is_root(page)
    assert table.children == {(root, b"aaaa"): page}
