use crate::rules::pattern::*;

#[test]
fn patterns_search_unanchored_and_case_sensitive() {
    let patterns = Patterns::default();
    for (pattern, text, expected) in [
        (".", "", true),
        ("^@Andy\\b", "@Andy hi", true),
        ("^@Andy\\b", "hey @Andy", false),
        ("^@Andy\\b", "@andy hi", false),
        ("deploy", "please deploy now", true),
        ("", "anything", true),
        ("\\d{3}", "abc", false),
        ("^$", "", true),
        ("x", "", false),
        // Differs from NanoClaw on purpose: there an invalid pattern engages on everything.
        ("[", "anything", false),
        ("(?i)andy", "anything", false),
    ] {
        for _ in 0..2 {
            assert_eq!(patterns.matches(pattern, text), expected, "{pattern} on {text}");
        }
    }
}

/// `tests/it/pattern.rs` compares the rest of the language with JavaScript itself.
#[test]
fn what_means_something_else_in_other_languages_means_what_it_means_in_javascript() {
    let patterns = Patterns::default();
    for (pattern, text, expected) in [
        ("^\\d$", "٣", false),
        ("^\\w$", "é", false),
        ("\\bé", "aé", true),
        ("^\\B$", "", true),
        ("\\B", "aäb", false),
        ("\\xFF|\\B", "kÿ2", true),
        ("^\\s$", "\u{feff}", true),
        ("^\\s$", "\u{85}", false),
        ("^.$", "\u{2028}", false),
        ("^.$", "\u{85}", true),
        ("^b", "a\nb", false),
        ("a$", "a\n", false),
        ("[]", "a", false),
        ("^[^]$", "\n", true),
        ("^[a&&b]$", "&", true),
        ("^[[a]$", "[", true),
        ("^[\\b]$", "\u{8}", true),
        ("^[\\d-z]+$", "1-z", true),
        ("^\\u{3}$", "uuu", true),
        ("^\\u0061\\x62\\cA\\0$", "ab\u{1}\0", true),
        ("^\\101\\8\\a\\-$", "A8a-", true),
        ("^()\\2$", "\u{2}", true),
        ("^a{,2}]}$", "a{,2}]}", true),
        ("^\\k<a>$", "k<a>", true),
        ("^(?<a>b)$", "b", true),
        ("^\\p{2}$", "pp", true),
        ("^..$", "😀", true),
        ("^.$", "😀", false),
        ("^😀$", "😀", true),
        ("^\\uD83D\\uDE00$", "😀", true),
        ("^[\\uD800-\\uDFFF]{2}$", "\u{10d83d}", true),
        // Without a group of that number it is an octal escape.
        ("^[(]\\1$", "(\u{1}", true),
        ("^[\\](]\\1$", "(\u{1}", true),
        ("^\\(\\1$", "(\u{1}", true),
        ("^(?:a)\\1$", "a\u{1}", true),
        ("^\\08\\377\\400$", "\08ÿ 0", true),
        ("^\\0001$", "\u{0}1", true),
        ("^\\W\\D\\w\\S\\d$", "éa__1", true),
        ("^[a-b-c][1\\c_]$", "-\u{1f}", true),
        ("^[a-\\d]$", "-", true),
        ("^[a]]$", "a]", true),
        ("^a{1,}b{2}c{0}d{2,3}$", "abbdd", true),
        ("^d{2,3}$", "dddd", false),
        ("^(?<\\u0061>b)(?<\\u{63}d>e)$", "be", true),
    ] {
        assert_eq!(check(pattern), Ok(()), "{pattern}");
        assert_eq!(patterns.matches(pattern, text), expected, "{pattern} on {text:?}");
    }
}

#[test]
fn a_broken_pattern_is_refused_with_its_place_and_advice() {
    let deep = "(".repeat(101);
    let large = "(?:a{1000}){1000}";
    for (pattern, message) in [
        ("[", "a character class is not closed at character 1, `[`; add `]`, or write \\["),
        ("😀(ab", "a group is not closed at character 2, `(ab`; add `)`"),
        ("ab)", "`)` closes no group at character 3, `)`"),
        ("a(?=b)", "look-ahead is not possible, at character 2, `(?=b)`; it cannot be searched in linear time"),
        ("a(?!b)", "negative look-ahead is not possible,"),
        ("(?<=b)a", "look-behind is not possible,"),
        ("(?<!b)a", "negative look-behind is not possible,"),
        ("(a)\\1", "a back-reference is not possible, at character 4, `\\1`;"),
        ("\\1(a)", "a back-reference is not possible, at character 1,"),
        ("(?<a>b)\\k<a>", "a named back-reference is not possible, at character 8,"),
        ("(?i)andy", "the group is of no known kind, at character 1, `(?i)andy`; there are no flags like (?i)"),
        ("(?i:andy)", "the group is of no known kind,"),
        ("(?<1>a)", "a group has no proper name, at character 1,"),
        ("(?<a", "a group has no proper name, at character 1,"),
        ("(?<a>b)(?<a>c)", "two groups have the same name, at character 8,"),
        ("a**", "there is nothing to repeat at character 3, `*`;"),
        ("^{2}", "there is nothing to repeat at character 2, `{2}`;"),
        ("a{3,2}", "the numbers in braces are out of order at character 2,"),
        ("a{70000}", "a number in braces is above 65535 at character 2,"),
        ("x[z-a]", "a range is out of order at character 3, `z-a]`; write the smaller end first"),
        ("[😀-😂]", "a range is out of order at character 2, `😀-😂]`; characters above U+FFFF are two halves"),
        ("[😀-a]", "a range is out of order at character 2, `😀-a]`; characters above U+FFFF are two halves"),
        ("(?<\\xabcd>a)", "a group has no proper name, at character 1,"),
        ("\\k(?<=b)", "look-behind is not possible, at character 3,"),
        ("a\\", "there is nothing behind the backslash at character 2, `\\`; write \\\\"),
        ("[\\", "there is nothing behind the backslash at character 2"),
        (deep.as_str(), "more than 100 nested groups at its end; write it flatter"),
        (large, "it needs more than 1048576 bytes; shorten it"),
    ] {
        let told = check(pattern).expect_err(pattern);
        assert!(told.starts_with(message), "{pattern}\n{told}\n{message}");
        assert!(told.contains("; ") && !told.contains('\n'), "{told}");
        assert!(!Patterns::default().matches(pattern, pattern), "{pattern} matches nothing");
    }
}

#[test]
fn what_is_kept_compiled_is_bounded() {
    let patterns = Patterns::default();
    for number in 0..400 {
        assert!(patterns.matches(&format!("^{number}$"), &number.to_string()));
        assert!(patterns.kept.lock().unwrap().bytes <= KEPT_MAX_BYTES);
    }
    let kept = patterns.kept.lock().unwrap().compiled.len();
    assert!((10..400).contains(&kept), "{kept}");
}

proptest::proptest! {
    #[test]
    fn random_patterns_never_panic(pattern in "(\\PC|[\\[\\](){}?*+\\\\^$|<>=!:,0-9a-kux.-]){0,40}", text in "\\PC{0,20}") {
        if check(&pattern).is_err() && pattern != "." {
            proptest::prop_assert!(!Patterns::default().matches(&pattern, &text));
        }
    }
}
