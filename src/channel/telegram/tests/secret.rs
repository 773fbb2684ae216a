//! The token is part of every URL and must not appear anywhere else.

use std::io::Write;

use super::*;
use crate::channel::telegram::api::Api;

/// Whether a text contains the token, or its secret part.
fn tells(text: &str) -> bool {
    text.contains(TOKEN) || text.contains(TOKEN.split_once(':').unwrap().1)
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn no_error_and_no_log_has_the_token() {
    let log = Log::default();
    let to = log.clone();
    let subscriber =
        tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(move || to.clone()).finish();
    let _logging = tracing::subscriber::set_default(subscriber);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let server = FakeTelegram::start();
    let echo = format!("no such thing: /bot{TOKEN}/sendMessage");
    server.fails(
        "sendMessage",
        [
            Fault::Close,
            Fault::LoseAnswer,
            Fault::Say(200, "{".into()),
            Fault::Say(200, json!({"ok": true, "result": echo}).to_string()),
            Fault::Say(502, echo.clone()),
            Fault::Say(400, json!({"ok": false, "error_code": 400, "description": echo}).to_string()),
        ],
    );
    let mut said = Vec::new();
    runtime.block_on(async {
        let api = Api::new(Some(&server.url()), TOKEN).unwrap();
        let lost = Api::new(Some(NOBODY), TOKEN).unwrap();
        let hi = json!({"chat_id": 1, "text": "hi"});
        for api in [&api, &api, &api, &api, &api, &api, &lost] {
            let failure = api.call::<super::super::wire::Sent>("sendMessage", &hi).await.unwrap_err();
            said.push(format!("{failure} {failure:?}"));
            tracing::error!(%failure, ?failure, ?api, "as a careless programmer would log it");
        }
        let slow = api.call_within::<Value>(Duration::from_millis(50), "getUpdates", &json!({"timeout": 5})).await;
        said.push(format!("{slow:?}"));
        said.push(format!("{:?}", api.fetch("none").await));
        said.push(format!("{api:?}"));
    });
    let setup = Setup {
        name: ChannelName::new("telegram").unwrap(),
        token: TOKEN.into(),
        base_url: None,
        sessions: "/".into(),
        link_previews: false,
        now: || Timestamp::from_millis(NOW),
    };
    said.push(format!("{setup:?}"));
    for text in &said {
        assert!(!tells(text), "{text}");
    }
    assert!(said.iter().any(|text| text.contains("[token]")), "{said:?}");
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(log.contains("careless") && !tells(&log), "{log}");
}

#[test]
fn addresses_and_tokens_that_are_none_are_refused_without_repeating_them() {
    for (base, token, says) in [
        (None, "", "the token is empty"),
        (None, "12:ab/../getMe?", "the token is empty or contains invalid characters"),
        (Some("ftp://x"), TOKEN, "`ftp` is neither https nor http"),
        (Some("x"), TOKEN, "base_url is not usable"),
        (Some("https://user:pw@x/"), TOKEN, "more parts than host, port and path"),
        (Some("https://x/?a=b"), TOKEN, "more parts than host, port and path"),
    ] {
        let said = Api::new(base, token).unwrap_err().to_string();
        assert!(said.contains(says) && !said.contains("getMe") && !said.contains("pw"), "{said}");
    }
    for base in ["http://127.0.0.1:1/", "https://x.example/telegram/", "https://x.example"] {
        assert!(Api::new(Some(base), &format!("{TOKEN}\n")).is_ok(), "{base}");
    }
}
