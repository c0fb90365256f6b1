use super::*;
use std::fs;
use std::sync::atomic::{AtomicU32, Ordering};

/// Reads the first of `files`, which may include the others.
fn read(files: &[(&str, &str)]) -> Result<CgroupPlan, String> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let top = std::env::temp_dir().join(format!("dayfly-plan-{}-{count}", std::process::id()));
    fs::create_dir(&top).unwrap();
    for (name, content) in files {
        fs::write(top.join(name), content).unwrap();
    }
    let path = top.join(files[0].0);
    let plan = parse(&super::super::read(&path).unwrap(), &path);
    fs::remove_dir_all(&top).unwrap();
    plan.map_err(|error| error.to_string().replace(&format!("{}/", top.display()), ""))
}

fn settings(group: &GroupPlan) -> Vec<String> {
    group.settings.iter().map(|s| format!("{}={}@{}", s.key, s.value, s.source.line)).collect()
}

#[test]
fn everything_a_group_has() {
    let plan = read(&[
        (
            "a.toml",
            "include = \"b.toml\"\n[group.test1]\ntemplate = \"db\"\npin = \"node:0\"\n\
             cpu.weight = 200\nmemory.swap.max = 0\n\"cpu.max.burst\" = 1000\ntask = \"oracle:dba\"\n\
             modes = { directory = \"0755\", tasks = \"664\" }\nio.max = [\"8:0 rbps=1\", \"8:16 rbps=2\"]\n\
             [group.worker]\nparent = \"test1\"\ncontrollers = [\"cpu\"]\n[group.\"x/y\"]\n",
        ),
        (
            "b.toml",
            "[template.base]\nadmin = \"root:root\"\nmemory.max = \"1G\"\ncpu.weight = 1\n\
             [template.db]\ntemplate = \"base\"\nmemory.max = \"8G\"\n",
        ),
    ])
    .unwrap();
    let names: Vec<_> = plan.groups.iter().map(|group| group.group.to_string()).collect();
    assert_eq!(names, ["test1", "cpu:test1/worker", "x/y"]);
    let group = &plan.groups[0];
    assert_eq!(
        settings(group),
        [
            "memory.max=8G@7",
            "cpu.weight=200@5",
            "memory.swap.max=0@6",
            "cpu.max.burst=1000@7",
            "io.max=8:0 rbps=1@10",
            "io.max=8:16 rbps=2@10",
        ]
    );
    assert_eq!(group.pin.as_ref().unwrap().value, "node:0");
    assert_eq!(group.ownership.admin.as_ref().unwrap().user.as_deref(), Some("root"));
    assert_eq!(
        (group.ownership.directory_mode, group.ownership.task_mode),
        (Some(0o755), Some(0o664))
    );
    assert_eq!(group.source.line, 2);
}

#[test]
fn mistakes_have_lines() {
    for (text, says) in [
        ("[group.a]\nmemory.max = ", "a.toml:2: "),
        ("[group.a]\nmemroy = 3\n", "a.toml:2: there is no key \"memroy\""),
        ("[group.a]\npni = \"node:0\"\n", "a.toml:2: there is no key \"pni\"; did you mean pin?"),
        ("\n[grup.a]\n", "a.toml:2: there is no key \"grup\"; did you mean group?"),
        (
            "[group.a]\n\nmodes = { file = \"644\" }\n",
            "a.toml:3: there is no key \"file\"; did you mean files?",
        ),
        ("[group.a]\nmodes = { files = \"999\" }\n", "a.toml:2: \"999\" is not a mode"),
        ("[group.a]\ntemplate = \"bd\"\n[template.db]\n", "a.toml:2: there is no template \"bd\""),
        ("[group.a]\ntask = 3\n", "a.toml:2: a quoted text is expected here"),
        ("group = 3\n", "a.toml:1: there should be a table"),
        ("[group.\"../a\"]\n", "a.toml:1: "),
        ("[group.a]\n[group.\"/a\"]\n", "a.toml:2: \"a\" is at a.toml:1 already"),
    ] {
        let error = read(&[("a.toml", text)]).unwrap_err();
        assert!(error.starts_with(says), "{text}: {error}");
    }
}

#[test]
fn parents_of_the_host() {
    let text = "[group.test1]\n[group.a]\nparent = \"tset1\"\n[group.b]\nparent = \"tset1\"\n\
                [group.c]\nparent = \"/test1/\"\n[group.d]\nparent = \"x\"\n[group.\"x/y\"]\n\
                [group.e]\nparent = \"tset1\"\nmake_parent = true\n";
    let plan = read(&[("a.toml", text)]).unwrap();
    let seen =
        |parent: &Parent| (parent.group.to_string(), parent.source.line, parent.similar.clone());
    let parents: Vec<_> = plan.groups.iter().map(|group| group.parent.as_ref().map(seen)).collect();
    let unknown = |line| Some(("tset1".to_owned(), line, Some("test1".to_owned())));
    assert_eq!(parents, [None, unknown(3), unknown(5), None, None, None, None]);
}

#[test]
fn circles() {
    let templates = "[group.a]\ntemplate = \"x\"\n[template.x]\ntemplate = \"y\"\n[template.y]\n\ntemplate = \"x\"\n";
    let error = read(&[("a.toml", templates)]).unwrap_err();
    assert_eq!(error, "a.toml:7: templates build on each other in a circle: x → y → x");
    let parents = "[group.a]\nparent = \"b\"\n[group.b]\nparent = \"a\"\n";
    let error = read(&[("a.toml", parents)]).unwrap_err();
    assert_eq!(error, "a.toml:4: groups are each other's parents in a circle: a → b → a");
    let files = [("a.toml", "include = [\"b.toml\"]\n"), ("b.toml", "\ninclude = [\"a.toml\"]\n")];
    let error = read(&files).unwrap_err();
    assert_eq!(error, "b.toml:2: files include each other in a circle: a.toml → b.toml → a.toml");
    let error = read(&[("a.toml", "\ninclude = \"none.toml\"\n")]).unwrap_err();
    assert!(error.starts_with("a.toml:2: open none.toml"), "{error}");
}
