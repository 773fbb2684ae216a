//! A token is tried by asking which bot it belongs to.

use super::*;

#[test]
fn a_token_names_its_bot_and_a_wrong_one_is_refused_in_words() {
    let server = FakeTelegram::start();
    let tokio = Runtime::new().unwrap();
    let identified = |url: &str, token: &str| tokio.block_on(identify(Some(url), token));
    let bot = identified(&server.url(), &format!(" {TOKEN}\n")).unwrap();
    assert_eq!((bot.id, bot.name.as_str()), (fake::ME, "Hearth"));
    assert_eq!(bot.username, fake::NAME);
    let wrong = identified(&server.url(), "1:wrong").unwrap_err();
    assert_eq!(wrong.to_string(), "the server does not accept the token: Unauthorized");
    assert_eq!(identified(&server.url(), "two words"), Err(IdentifyError::Unusable(Unusable::Token)));
    let lost = identified(NOBODY, TOKEN).unwrap_err().to_string();
    assert!(lost.starts_with("the server cannot be reached: nothing listens there"), "{lost}");
}
