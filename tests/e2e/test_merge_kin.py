"""Merging files between sandboxes that are further apart than parent and child: what both come from is the base."""


def merged(parent, winner):
    return parent.client.request("POST", f"{parent.path}/merge_into/{winner.id}", {"mode": "files"})


def test_a_nephew_brings_what_its_parent_had_done_before(sandbox, fork):
    one, other = fork(sandbox, 2)
    one.bash_ok("echo by-one > /root/of-one")
    nephew, = fork(one)
    nephew.bash_ok("echo n > /root/of-nephew")
    assert merged(other, nephew).status == 200
    assert other.bash_ok("cd /root; cat of-one of-nephew") == "by-one\nn\n"


def test_a_cousin_brings_what_its_parent_had_done_before(sandbox, fork):
    one, other = fork(sandbox, 2)
    one.bash_ok("echo by-one > /root/of-one")
    cousin, = fork(one)
    parent, = fork(other)
    assert merged(parent, cousin).status == 200
    assert parent.bash_ok("cd /root; cat of-one") == "by-one\n"
