#![no_main]
//! Policies as people write them: nothing panics, and what is shown can be read back.

use heliostat_policy::{ArrayInfo, PolicyControl, PolicySpec};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let array = ArrayInfo::new(3);
    if let Ok(spec) = PolicySpec::parse(text) {
        let shown = spec.to_string();
        assert_eq!(
            PolicySpec::parse(&shown),
            Ok(spec),
            "{shown} is another policy"
        );
        let _ = spec.build(&array);
    }
    if let Ok(list) = PolicySpec::parse_list(text) {
        let shown: Vec<String> = list.iter().map(ToString::to_string).collect();
        let shown = shown.join(",");
        assert_eq!(
            PolicySpec::parse_list(&shown),
            Ok(list),
            "{shown} is another list"
        );
    }
    // One write after another to the same array, as a script does it.
    let first = PolicySpec::parse("pid").expect("pid is a policy");
    let mut control = PolicyControl::new(first);
    for line in text.split_inclusive('\n') {
        let before = control.show();
        if control.store(line, &array).is_err() {
            assert_eq!(control.show(), before, "a refused write changed something");
        }
    }
});
