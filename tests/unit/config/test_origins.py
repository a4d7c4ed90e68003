from smg.config.origins import DEFAULT, Origin, suggestion


def test_an_origin_reads_as_the_place_or_as_default():
    assert str(DEFAULT) == "default"
    assert str(Origin("file", "smg.yaml:3")) == "smg.yaml:3"


def test_a_problem_says_where_to_look_unless_its_flag_already_does():
    assert Origin("env", "SMG_PORT").aside == " (from SMG_PORT)"
    assert Origin("file", "smg.yaml:3").aside == " (from smg.yaml:3)"
    assert Origin("flag", "--port").aside == ""
    assert DEFAULT.aside == ""


def test_only_a_close_name_is_suggested():
    assert suggestion("polcy", ["policy", "port"]) == ", did you mean policy?"
    assert suggestion("zzz", ["policy", "port"]) == ""
