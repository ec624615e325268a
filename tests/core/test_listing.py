"""Names of many."""

from kit.core.listing import counted, listed


def test_of_many_the_first_are_named_and_one_alone_is_never_left_out() -> None:
    names = ["b1", "b2", "b3", "b4"]
    assert [listed(names, most) for most in (1, 2, 3)] == ["b1 and 3 more", "b1, b2 and 2 more", "b1, b2, b3, b4"]
    assert listed(names[:1], 3) == "b1" and listed(names, 1, "; ") == "b1 and 3 more"


def test_names_stand_in_the_order_of_their_numbers() -> None:
    assert sorted(["b10", "b2", "a9", "b", "10", "9"], key=counted) == ["9", "10", "a9", "b", "b2", "b10"]
