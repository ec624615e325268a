from dataclasses import replace

import pytest

from kit.core.errors import UsageError
from kit.model.scenario import Command, command_scenario
from kit.model.scenariofile import find_line, parse_scenario
from kit.session.plan.planning import find_scenario, scenario_names

GOOD = """\
name = "demo"
summary = "A demo"
image = "smoke"

[params.jobs]
default = "{cores}"
type = "int"

[params.targets]
default = "all"
type = "words"

[inputs.src]
source = "/some/dir"

[[phases]]
name = "build"
run = ["make", "-j{jobs}", "{targets}", "{tree}/x", "${keep}"]

[[phases]]
name = "clean"
run = ["rm", "-r", "{inputs}"]

[variants.tiny]
summary = "less"
params.targets.default = "one two"
"""


def test_binds_parameters_into_steps() -> None:
    bound = parse_scenario(GOOD, "demo.toml").bind({"targets": "a 'b c'"}, cores=3)
    assert bound.phases[0].run == ("make", "-j3", "a", "b c", "{tree}/x", "${keep}")
    assert bound.phases[0].render({"tree": "/build", "inputs": "/in"}) == (
        "make",
        "-j3",
        "a",
        "b c",
        "/build/x",
        "${keep}",
    )
    assert bound.phases[1].render({"tree": "/build", "inputs": "/in"}) == ("rm", "-r", "/in")
    assert dict(bound.values) == {"jobs": "3", "targets": "a 'b c'"}


def test_variant_overrides() -> None:
    scenario = parse_scenario(GOOD, "demo.toml", "tiny")
    assert scenario.label == "demo:tiny"
    assert scenario.bind({}, 1).phases[0].run[2:4] == ("one", "two")
    assert parse_scenario(GOOD, "demo.toml").variants == (("tiny", "less"),)


def test_a_reporter_is_bound_like_a_command_and_makes_no_run_another() -> None:
    lines = 'name = "build"\nreport = "buildstats"\nreporter = ["stats", "{jobs}", "{targets}"]\n'
    found = parse_scenario(GOOD.replace('name = "build"\n', lines), "demo.toml").bind({"targets": "a b"}, 2)
    assert found.phases[0].printer == Command("build", ("stats", "2", "a", "b"))
    without = parse_scenario(GOOD.replace('name = "build"\n', 'name = "build"\nreport = "buildstats"\n'), "demo.toml")
    assert without.bind({"targets": "a b"}, 2).digest == found.digest and without.phases[0].printer is None


def test_what_a_reporter_prints_is_read() -> None:
    unknown = 'report = "lines"\nreporter = ["{no}"]'
    for lines, hint in (('reporter = ["stats"]', "nothing reads"), (unknown, "unknown name")):
        with pytest.raises(UsageError, match=hint):
            parse_scenario(GOOD.replace('name = "build"\n', f'name = "build"\n{lines}\n'), "demo.toml")


def test_digest_tells_parameters_apart() -> None:
    scenario = parse_scenario(GOOD, "demo.toml")
    assert scenario.bind({"jobs": "1"}, 4).digest == scenario.bind({}, 1).digest
    assert scenario.bind({"jobs": "2"}, 4).digest != scenario.bind({}, 1).digest


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('name = "demo"', 'nome = "demo"', r"demo.toml:1: nome: unknown key"),
        ('type = "int"', 'type = "integer"', r"demo.toml:7: params.jobs.type: unknown type 'integer'"),
        ('run = ["rm", "-r", "{inputs}"]', 'run = "rm"', r"demo.toml:22: phases\[1\].run: is not a list"),
        ("{jobs}", "{job}", r"demo.toml:18: phases\[0\].run: unknown name \{job\}"),
        ('name = "clean"', 'name = "build"', r"demo.toml:21: phases\[1\].name: 'build' is used twice"),
        ('name = "clean"', 'name = "total"', r"'total' is not usable"),
        ('run = ["rm", "-r", "{inputs}"]\n', "", r"phases\[1\]: lacks the key 'run'\n  fix: add run = \[\"make\""),
        ('source = "/some/dir"', 'into = "x"', r"demo.toml:14: inputs.src.into: is 'x'"),
        ('[inputs.src]\nsource = "/some/dir"', "[inputs.src]", r"demo.toml:13: inputs.src: lacks the key 'source'"),
        ('summary = "A demo"', "summary = A demo", r"demo.toml: not valid TOML: .*line 2"),
    ],
)
def test_errors_name_file_line_and_key(old: str, new: str, says: str) -> None:
    assert old in GOOD
    with pytest.raises(UsageError, match=says):
        parse_scenario(GOOD.replace(old, new), "demo.toml")


def test_every_scenario_has_copies() -> None:
    scenario = parse_scenario(GOOD, "demo.toml")
    one, two = scenario.at_points((("copies", "1,2"),), 1).values()
    assert (one.copies, two.copies, scenario.bind({}, 1).copies) == (1, 2, 1)
    assert one.digest != two.digest
    with pytest.raises(UsageError, match="demo drives the engine itself"):
        replace(scenario, engine=("docker",)).bind({"copies": "2"}, 1)
    with pytest.raises(UsageError, match=r"params\.copies: is a reserved name"):
        parse_scenario(GOOD.replace("[params.jobs]", "[params.copies]"), "demo.toml")


def test_unknown_parameter_variant_and_bad_value() -> None:
    scenario = parse_scenario(GOOD, "demo.toml")
    with pytest.raises(UsageError, match="no parameter 'x'"):
        scenario.bind({"x": "1"}, 1)
    with pytest.raises(UsageError, match="not a whole number"):
        scenario.bind({"jobs": "all"}, 1)
    with pytest.raises(UsageError, match="no variant 'huge'"):
        parse_scenario(GOOD, "demo.toml", "huge")
    with pytest.raises(UsageError, match="no \\[\\[phases\\]\\]"):
        parse_scenario('name = "x"\nsummary = "x"\nimage = "x"\n', "x.toml")


def test_find_line() -> None:
    assert find_line(GOOD, "params.targets.type") == 11
    assert find_line(GOOD, "phases[1]") == 20
    assert find_line(GOOD, "image") == 3
    assert find_line(GOOD, "nothing.here") is None


def test_names_that_must_be_asked_for() -> None:
    for name in ("lower", "engine", "registry"):
        with pytest.raises(UsageError, match=f"unknown name {{{name}}}"):
            parse_scenario(GOOD.replace("{tree}/x", f"{{{name}}}"), "demo.toml")
    text = 'lower = "/low"\nengine = ["docker"]\n' + GOOD.replace("{tree}/x", "{lower}{engine}")
    assert parse_scenario(text, "demo.toml").bind({}, 1).phases[0].run[3] == "{lower}{engine}"


def test_a_registry_serves_an_input_and_interfaces_are_known() -> None:
    served = GOOD.replace('source = "/some/dir"', 'source = "/some/dir"\ninto = "directory"')
    found = parse_scenario('registry = "src"\nengine = ["ctr", "docker"]\n' + served, "demo.toml")
    assert (found.registry, found.engine) == ("src", ("ctr", "docker"))
    with pytest.raises(UsageError, match=r"demo\.toml:1: registry: 'src' is no input that it can serve"):
        parse_scenario('registry = "src"\n' + GOOD, "demo.toml")
    with pytest.raises(UsageError, match=r"demo\.toml:1: engine: 'cri' is unknown") as error:
        parse_scenario('engine = ["docker", "cri"]\n' + GOOD, "demo.toml")
    assert error.value.hint == "use one of: docker, ctr"


def test_inputs_that_are_fetched() -> None:
    text = GOOD.replace('source = "/some/dir"', 'fetch = [["get", "{targets}", "{tree}"]]\ninto = "directory"')
    item = parse_scenario(text, "demo.toml").bind({"targets": "a b"}, 1).inputs[0]
    assert (item.source, item.into, item.fetch[0].run) == ("", "directory", ("get", "a", "b", "{tree}"))
    with pytest.raises(UsageError, match=r"inputs.src.fetch: unknown name \{target\}"):
        parse_scenario(text.replace('["get", "{targets}"', '["get", "{target}"'), "demo.toml")


def test_commands_are_taken_as_they_are() -> None:
    scenario = command_scenario(("echo", "{jobs}", "${x}"), source="/src", prepare="true").bind({}, 2)
    assert scenario.phases[0].run == ("echo", "{jobs}", "${x}")
    assert scenario.prepare[0].run == ("sh", "-c", "true")
    assert scenario.inputs[0].into == "tree"


@pytest.mark.parametrize("name", scenario_names())
def test_bundled_scenarios_are_valid(name: str) -> None:
    scenario = find_scenario(name)
    assert scenario.name == name
    for variant, _ in scenario.variants:
        assert find_scenario(f"{name}:{variant}").bind({}, 2).phases


def test_unknown_scenario() -> None:
    with pytest.raises(UsageError, match="unknown scenario 'nope'"):
        find_scenario("nope")
