"""The stored fixtures are what PyTorch makes of today's cases."""

from make_fixtures import differences


def test_fixtures_are_up_to_date():
    assert list(differences()) == []
