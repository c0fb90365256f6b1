//! Tests of the parser with command lines that engines pass, and with command lines that runc refuses.

use proptest::prelude::*;

use crate::definition::options::*;
use crate::definition::{COMMANDS, Command, GLOBALS, Order, find};
use crate::parser::{Parsed, count_arguments, parse, parse_command};
use crate::usage::UsageError;
use crate::values::Values;

/// Returns the global options, the command, and the command's options and arguments.
fn read<'a>(line: &[&'a str]) -> (Values<'a>, &'static Command, Parsed<'a>) {
    let globals = parse(GLOBALS, Order::OptionsFirst, line).unwrap();
    let (name, rest) = globals.arguments.split_first().unwrap();
    let command = find(name).unwrap();
    let parsed = parse_command(command, rest).unwrap();
    count_arguments(command, &parsed.values, parsed.arguments.len()).unwrap();
    (globals.values, command, parsed)
}

/// Returns the error message for a command line.
fn refusal(line: &str) -> String {
    let line: Vec<&str> = line.split(' ').collect();
    let globals = match parse(GLOBALS, Order::OptionsFirst, &line) {
        Ok(globals) => globals,
        Err(error) => return error.to_string(),
    };
    let (name, rest) = globals.arguments.split_first().unwrap();
    let command = find(name).unwrap();
    match parse_command(command, rest) {
        Ok(parsed) => count_arguments(command, &parsed.values, parsed.arguments.len())
            .unwrap_err()
            .to_string(),
        Err(error) => error.to_string(),
    }
}

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

#[test]
fn conmon() {
    let line = "--root=/run/dayfly --log-format=json --log /run/log --systemd-cgroup create --bundle /b \
        --pid-file /b/pidfile --no-pivot --no-new-keyring --console-socket /s 0123abc";
    let (globals, command, parsed) = read(&words(line));
    assert_eq!(command.name, "create");
    assert_eq!(globals.text(&ROOT), Some("/run/dayfly"));
    assert_eq!(globals.text(&LOG), Some("/run/log"));
    assert_eq!(globals.text(&LOG_FORMAT), Some("json"));
    assert!(globals.flag(&SYSTEMD_CGROUP) && !globals.flag(&DEBUG));
    assert_eq!(parsed.arguments, ["0123abc"]);
    let values = parsed.values;
    assert_eq!(values.text(&BUNDLE), Some("/b"));
    assert_eq!(values.text(&PID_FILE), Some("/b/pidfile"));
    assert_eq!(values.text(&CONSOLE_SOCKET), Some("/s"));
    assert!(values.flag(&NO_PIVOT) && values.flag(&NO_NEW_KEYRING));

    let line = "--log-format json --log /l exec --pid-file /p --process /j --detach 0123abc";
    let (_, command, parsed) = read(&words(line));
    assert_eq!((command.name, &parsed.arguments[..]), ("exec", &["0123abc"][..]));
    assert_eq!(parsed.values.text(&PROCESS), Some("/j"));
    assert!(parsed.values.flag(&DETACH));
}

#[test]
fn go_runc() {
    let globals = "--root /run/containerd/runc/k8s.io --debug --log /l/log.json --log-format json";
    for (rest, name, arguments) in [
        ("create --bundle /b --pid-file /b/init.pid --preserve-fds 2 c1", "create", vec!["c1"]),
        ("--systemd-cgroup create --bundle /b --pidfd-socket /s c1", "create", vec!["c1"]),
        ("--rootless=false start c1", "start", vec!["c1"]),
        ("state c1", "state", vec!["c1"]),
        ("kill --all c1 9", "kill", vec!["c1", "9"]),
        ("kill c1 15", "kill", vec!["c1", "15"]),
        ("delete --force c1", "delete", vec!["c1"]),
        ("events --stats c1", "events", vec!["c1"]),
        ("events --interval=5s c1", "events", vec!["c1"]),
        ("pause c1", "pause", vec!["c1"]),
        ("resume c1", "resume", vec!["c1"]),
        ("ps --format json c1", "ps", vec!["c1"]),
        ("update --resources=- c1", "update", vec!["c1"]),
        ("list --format=json", "list", vec![]),
        ("exec --process /p --console-socket /s --detach --pid-file /f c1", "exec", vec!["c1"]),
        ("features", "features", vec![]),
    ] {
        let line = format!("{globals} {rest}");
        let (values, command, parsed) = read(&words(&line));
        assert!(values.flag(&DEBUG));
        assert_eq!((command.name, parsed.arguments), (name, arguments), "{rest}");
    }
    let parsed = parse(GLOBALS, Order::OptionsFirst, &["--version"]).unwrap();
    assert!(parsed.values.flag(&VERSION));
}

#[test]
fn spellings_of_options() {
    let create = find("create").unwrap();
    for line in [
        "--bundle /b c",
        "--bundle=/b c",
        "-bundle /b c",
        "-bundle=/b c",
        "-b /b c",
        "-b=/b c",
        "--b /b c",
        "c --bundle /b",
        "c -b=/b",
        "-b /a -b /b c",
        "-b /b -- c",
    ] {
        let parsed = parse_command(create, &words(line)).unwrap();
        assert_eq!(parsed.values.text(&BUNDLE), Some("/b"), "{line}");
        assert_eq!(parsed.arguments, ["c"], "{line}");
    }
    let parsed = parse_command(create, &["--bundle", "", "c"]).unwrap();
    assert_eq!(parsed.values.text(&BUNDLE), None);
    // A value may look like an option.
    let parsed = parse_command(create, &["--bundle", "--pid-file", "-b", "--", "c"]).unwrap();
    assert_eq!(parsed.values.text(&BUNDLE), Some("--"));
    assert!(!parsed.values.is_set(&PID_FILE));
}

#[test]
fn flags() {
    let delete = find("delete").unwrap();
    for (line, force) in [
        ("c", false),
        ("-f c", true),
        ("-force c", true),
        ("c --force", true),
        ("--force=true c", true),
        ("--force=T c", true),
        ("--force=0 c", false),
        ("-f --force=false c", false),
        ("-- c", false),
    ] {
        let parsed = parse_command(delete, &words(line)).unwrap();
        assert_eq!(
            (parsed.values.flag(&FORCE), &parsed.arguments[..]),
            (force, &["c"][..]),
            "{line}"
        );
    }
    assert!(parse_command(delete, &["c", "-h"]).unwrap().values.flag(&HELP));
}

#[test]
fn letters_behind_one_dash() {
    let exec = find("exec").unwrap();
    for line in ["-it c ls -it", "-ti c ls -it", "-i -t c ls -it", "-tiit c ls -it"] {
        let parsed = parse_command(exec, &words(line)).unwrap();
        assert!(parsed.values.flag(&TTY) && parsed.values.flag(&INTERACTIVE), "{line}");
        assert!(!parsed.values.flag(&DETACH), "{line}");
        assert_eq!(parsed.arguments, ["c", "ls", "-it"], "{line}");
    }
    let parsed = parse_command(exec, &words("-i c ls")).unwrap();
    assert!(!parsed.values.flag(&TTY));
    let parsed = parse_command(exec, &words("-tie A=1 -dg 5 c ls")).unwrap();
    assert!(parsed.values.flag(&TTY) && parsed.values.flag(&DETACH));
    assert_eq!(parsed.values.texts(&ENV).collect::<Vec<_>>(), ["A=1"]);
    assert_eq!(parsed.values.integers(&ADDITIONAL_GIDS).collect::<Vec<_>>(), [5]);
    assert_eq!(parsed.arguments, ["c", "ls"]);
    assert!(parse_command(exec, &["-ith"]).unwrap().values.flag(&HELP));
    // The name of an option is not split into letters.
    let parsed = parse_command(exec, &words("-tty -env A=1 c")).unwrap();
    assert!(parsed.values.flag(&TTY) && !parsed.values.flag(&INTERACTIVE));
    // Options may also follow the first argument. There, words that are not defined options are arguments.
    let delete = find("delete").unwrap();
    assert!(parse_command(delete, &words("c -fh")).unwrap().values.flag(&FORCE));
    assert_eq!(parse_command(delete, &words("c -fx")).unwrap().arguments, ["c", "-fx"]);
    // Letters after two dashes are not combined, and `-v` is a global option.
    for (line, text) in [
        ("exec --it c ls", "flag provided but not defined: -it"),
        ("exec -itv c ls", "flag provided but not defined: -itv"),
        // All letters except the last must be flags, since a value cannot begin within the word.
        ("exec -eit c ls", "flag provided but not defined: -eit"),
        ("exec -it=true c ls", "flag provided but not defined: -it"),
        ("exec -te", "flag needs an argument: -env"),
        ("exec -tg x c ls", "invalid value \"x\" for flag -additional-gids: parse error"),
    ] {
        assert_eq!(refusal(line), text, "{line}");
    }
}

#[test]
fn what_another_program_is_given() {
    let exec = find("exec").unwrap();
    let parsed =
        parse_command(exec, &words("-t -e A=1 --env B=2 -g 5 c1 ls -t --env -- x")).unwrap();
    assert_eq!(parsed.arguments, ["c1", "ls", "-t", "--env", "--", "x"]);
    assert_eq!(parsed.values.texts(&ENV).collect::<Vec<_>>(), ["A=1", "B=2"]);
    assert_eq!(parsed.values.integers(&ADDITIONAL_GIDS).collect::<Vec<_>>(), [5]);
    assert!(parsed.values.flag(&TTY));
    let parsed = parse_command(exec, &words("c1 -t ls")).unwrap();
    assert_eq!(parsed.arguments, ["c1", "-t", "ls"]);
    let parsed = parse_command(find("ps").unwrap(), &words("c1 -o pid,cmd --format json")).unwrap();
    assert_eq!(parsed.arguments, ["c1", "-o", "pid,cmd", "--format", "json"]);
    // A signal is not an option.
    let parsed = parse_command(find("kill").unwrap(), &words("c1 -9 --all")).unwrap();
    assert_eq!(parsed.arguments, ["c1", "-9"]);
    assert!(parsed.values.flag(&ALL));
    // A single dash is not an option either.
    let parsed = parse_command(find("update").unwrap(), &words("-r - c1")).unwrap();
    assert_eq!((parsed.values.text(&RESOURCES), &parsed.arguments[..]), (Some("-"), &["c1"][..]));
}

#[test]
fn refusals_in_the_words_of_runc() {
    for (line, text) in [
        ("--bogus state x", "flag provided but not defined: -bogus"),
        ("--root", "flag needs an argument: -root"),
        ("state --bogus x", "flag provided but not defined: -bogus"),
        ("state -v x", "flag provided but not defined: -v"),
        ("state x --bogus", "\"state\" requires exactly 1 argument(s)"),
        ("state ---x y", "bad flag syntax: ---x"),
        ("state -=x y", "bad flag syntax: -=x"),
        ("state --= y", "bad flag syntax: --="),
        ("delete -fx c", "flag provided but not defined: -fx"),
        ("delete c -force=maybe", "invalid boolean value \"maybe\" for -force: parse error"),
        ("delete -- c -f", "\"delete\" requires exactly 1 argument(s)"),
        ("kill -9 c", "flag provided but not defined: -9"),
        ("kill c 9 10", "\"kill\" requires a maximum of 2 argument(s)"),
        ("kill", "\"kill\" requires a minimum of 1 argument(s)"),
        ("exec", "\"exec\" requires a minimum of 1 argument(s)"),
        ("exec -tx c ls", "flag provided but not defined: -tx"),
        ("list extra", "\"list\" requires exactly 0 argument(s)"),
        ("run c d", "\"run\" requires exactly 1 argument(s)"),
        ("create --preserve-fds", "flag needs an argument: -preserve-fds"),
        ("create --preserve-fds c", "invalid value \"c\" for flag -preserve-fds: parse error"),
        ("create --preserve-fds=1x c", "invalid value \"1x\" for flag -preserve-fds: parse error"),
        (
            "create --preserve-fds=99999999999999999999 c",
            "invalid value \"99999999999999999999\" for flag -preserve-fds: value out of range",
        ),
        ("exec -g 1a c ls", "invalid value \"1a\" for flag -g: parse error"),
        ("events --interval 5 c", "invalid value \"5\" for flag -interval: parse error"),
    ] {
        assert_eq!(refusal(line), text, "{line}");
    }
}

#[test]
fn no_command() {
    for line in [&["--"][..], &["--debug"], &[]] {
        assert!(parse(GLOBALS, Order::OptionsFirst, line).unwrap().arguments.is_empty());
    }
    let parsed = parse(GLOBALS, Order::OptionsFirst, &["--", "state", "-h"]).unwrap();
    assert_eq!(parsed.arguments, ["state", "-h"]);
    assert!(find("no-such-command").is_none());
}

/// Generates words that are likely to be accepted, and some words that are likely to be refused.
fn word() -> impl Strategy<Value = String> {
    let options =
        COMMANDS.iter().flat_map(|command| command.options).chain(GLOBALS).copied().flatten();
    let names: Vec<String> = options.map(|option| format!("--{}", option.long)).collect();
    prop_oneof![
        proptest::sample::select(names.clone()),
        (proptest::sample::select(names), ".{0,6}")
            .prop_map(|(name, value)| format!("{name}={value}")),
        "-{0,3}[a-z=]{0,3}",
        "[0-9]{0,30}",
        "\\PC{0,8}",
    ]
}

proptest! {
    #[test]
    fn any_command_line_is_read_or_refused(line in proptest::collection::vec(word(), 0..8)) {
        let line: Vec<&str> = line.iter().map(String::as_str).collect();
        let mut refusals: Vec<UsageError<'_>> = Vec::new();
        refusals.extend(parse(GLOBALS, Order::OptionsFirst, &line).err());
        for command in COMMANDS {
            match parse_command(command, &line) {
                Ok(parsed) => {
                    prop_assert!(parsed.arguments.len() <= line.len());
                    refusals.extend(count_arguments(command, &parsed.values, parsed.arguments.len()).err());
                    for option in command.options.iter().copied().flatten() {
                        let values = &parsed.values;
                        let _ = (values.flag(option), values.text(option), values.duration(option));
                        let _ = values.integers(option).count();
                    }
                }
                Err(error) => refusals.push(error),
            }
        }
        prop_assert!(refusals.iter().all(|refusal| !refusal.to_string().is_empty()));
    }

    #[test]
    fn texts_from_outside_never_panic(text in "\\PC{0,24}") {
        let _ = crate::signal::parse(&text);
        let _ = crate::duration::parse(&text);
        let _ = crate::size::parse(&text).map_err(|error| error.to_string());
        let _ = crate::number::parse::<u32>(&text);
    }
}

#[test]
fn letters_that_share_a_dash() {
    let line = ["run", "-itv", "/a:/b", "--rm", "-v", "/c:/d", "--image", "web", "sh", "-it"];
    let (_, _, parsed) = read(&line);
    let values = parsed.values;
    assert!(values.flag(&INTERACTIVE) && values.flag(&TTY) && values.flag(&REMOVE));
    assert_eq!(values.texts(&VOLUME).collect::<Vec<_>>(), ["/a:/b", "/c:/d"]);
    assert_eq!(parsed.arguments, ["sh", "-it"]);
    assert_eq!(refusal("run -itx web"), "flag provided but not defined: -itx");
    // Values may follow their letter in run, except the bundle, as runc has it.
    let line = ["run", "-m64m", "-v/a:/b", "-eA=1", "-dw/srv", "-u=7", "--image", "web"];
    let (_, _, parsed) = read(&line);
    let values = parsed.values;
    assert_eq!(values.texts(&VOLUME).collect::<Vec<_>>(), ["/a:/b"]);
    assert_eq!(values.texts(&ENV).collect::<Vec<_>>(), ["A=1"]);
    assert_eq!((values.text(&RUN_MEMORY), values.text(&WORKDIR)), (Some("64m"), Some("/srv")));
    assert!(values.flag(&BACKGROUND) && values.text(&RUN_USER) == Some("7"));
    assert_eq!(refusal("run -b/x web"), "flag provided but not defined: -b/x");
    assert_eq!(refusal("exec -u7 web ls"), "flag provided but not defined: -u7");
    assert_eq!(refusal("run --it web"), "flag provided but not defined: -it");
    assert_eq!(refusal("run -itv"), "flag needs an argument: -volume");
    // As in runc, a word that follows an argument and is not a defined option is an argument, too.
    assert_eq!(read(&["kill", "web", "-9"]).2.arguments, ["web", "-9"]);
}
