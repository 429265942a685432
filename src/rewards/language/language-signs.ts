/**
 * What tells languages apart that share a script: frequent small words, and letters that the others do not use.
 *
 * The words are those that any text of a hundred words contains. Languages that are often taken for each other list the
 * words in which they differ.
 */

/** The signs of one language. */
export interface LanguageSigns {
  readonly code: string;
  readonly words: ReadonlySet<string>;
  /** Letters that speak for this language against the others of its script. */
  readonly letters: string;
}

/** Languages in Latin letters. */
export const latinLanguages: readonly LanguageSigns[] = [
  signs(
    "en",
    "the of and to in is that for it with as on be are this was by not or have from at which you they we his has but all would there their been will can if",
  ),
  signs(
    "es",
    "el la de que y en los las un una por con para es se del lo como más su al no pero sus le este ha porque esta son entre cuando muy sin sobre ser también hay",
    "ñ¿¡",
  ),
  signs(
    "pt",
    "o a de que e do da em um uma para com não os as se na no por mais dos das como mas foi ao ele tem à seu sua ou ser quando muito há nos já está eu também são você",
    "ãõ",
  ),
  signs(
    "fr",
    "le la les de des du et en un une est que qui dans pour par sur pas au avec ce il ne se plus sont cette ou mais nous vous son sa ses aux à été comme elle être",
    "œùê",
  ),
  signs(
    "de",
    "der die das und in den von zu mit ist des dem nicht ein eine auf für im sich auch es an werden aus er hat dass sie nach wird bei einer um am sind noch wie einem über zum haben ich",
    "ßäü",
  ),
  signs(
    "it",
    "il la di che e in un una per è con non del della dei delle le si da i gli al alla sono come anche più ma lo nel nella ha su questo ogni o suo essere dal dalla",
    "ìò",
  ),
  signs(
    "nl",
    "de het een en van in is dat op te zijn met voor niet die aan er om ook als maar dan bij naar hij uit door over worden nog wel deze kan heeft ik wordt ze",
    "",
  ),
  signs(
    "sv",
    "och att det i en som på är av för med den till inte om har ett de var jag så men från vi han kan eller när hon skall sin alla",
    "å",
  ),
  signs(
    "da",
    "og at det i en af er på til for med den som ikke de har et der om var jeg fra men han vi kan eller skal sig ved også blev efter",
    "æø",
  ),
  signs(
    "no",
    "og å det i en av er på til for med den som ikke de har et om var jeg fra men han vi kan eller skal seg ved også ble etter enhver",
    "øæ",
  ),
  signs(
    "fi",
    "ja on ei se että hän oli mutta kuin joka myös ovat olla tai niin kun mitä sen jos minä ole tämä sitä vain hänen kanssa mukaan voi eivät sekä ne jotka jokaisella",
    "ä",
  ),
  signs(
    "pl",
    "i w na z do się nie że to jest o jak za od po ale co dla przez tym są przy jego oraz ma tak być może ten który a lub czy ich już tylko każdy",
    "łąężśćź",
  ),
  signs(
    "cs",
    "a v na se je že to s z do o i ve pro jako ale za k po by jsou které který nebo co jeho tak podle při až být má každý jen aby",
    "ěřůčš",
  ),
  signs(
    "ro",
    "și de în a la cu pe că este un o nu din sau se ce mai pentru care au fi prin sunt lui dar al ale dreptul cel ca acest orice după când",
    "ășțşţâ",
  ),
  signs(
    "ca",
    "el la de i que en els les un una per amb és no del dels al es com més seva seu són pel aquest aquesta ha ser però o tot tota dret",
    "·",
  ),
  signs(
    "hu",
    "a az és hogy nem is egy van meg ez csak de ha mint vagy minden azt el már volt kell lehet mert joga sem ki még való",
    "őű",
  ),
  signs(
    "tr",
    "ve bir bu da de için ile olarak çok daha olan gibi var ne kadar ya ki o her veya sonra ise değil en olduğu hakkı şey mı mi",
    "ğış",
  ),
  signs(
    "id",
    "yang dan di untuk dengan dari pada adalah ini itu dalam tidak akan atau oleh sebagai juga ke saya anda mereka karena dapat bisa setiap orang ada telah berhak hak",
  ),
  signs(
    "sw",
    "na ya wa kwa ni za katika la kama hii hiyo cha au kila mtu ana haki yake watu wote lakini hivyo kuwa vya sana yangu wake pia huu hilo wao ili",
  ),
  signs(
    "vi",
    "và của là các có được trong cho một những không người với này để đã khi về từ cũng như ra tôi hay hoặc sự đến mọi quyền bạn",
    "đơưạảấầẩẫậắằẳẵặẹẻẽếềểễệỉịọỏốồổỗộớờởỡợụủứừửữựỳỵỷỹ",
  ),
];

/** Languages in Cyrillic letters. */
export const cyrillicLanguages: readonly LanguageSigns[] = [
  signs(
    "ru",
    "и в не на что с по как это он она из к у за от но для все его так же был или ее бы вы мы если имеет при только может каждый человек",
    "ыэё",
  ),
  signs(
    "uk",
    "і в не на що з та до як це він вона із у за від але для все його так же був або її би ви ми якщо має при тільки може кожна людина є й",
    "іїєґ",
  ),
  signs(
    "bg",
    "и в не на че с по като това той тя от за но да се са е или ще ги ми ни ако има при само може всеки човек му неговата",
    "ъ",
  ),
];

/** Languages in Arabic letters. */
export const arabicLanguages: readonly LanguageSigns[] = [
  signs("ar", "في من على أن إلى هذا هذه التي الذي لا ما كان عن مع كل أو هو هي قد بين ذلك حق له لكل شخص أي", "ةأإى"),
  signs("fa", "و در به از که این را با است برای آن یک تا هر شود می بر خود او های دارد حق یا باید کند نیست ها", "ژ"),
  signs(
    "ur",
    "کے میں کی ہے اور سے کا کو اس کہ پر نہیں یہ ہیں ایک کر بھی تھا وہ نے جو ہو گا تو ہر شخص حق یا",
    "ٹڈڑےںہھ",
  ),
];

/** Languages in Devanagari. */
export const devanagariLanguages: readonly LanguageSigns[] = [
  signs("hi", "है में की के और का को से यह पर नहीं एक हैं कि इस भी तो कर जो हो ने था लिए या वह अपने किसी प्रत्येक हम आप मैं"),
  signs(
    "mr",
    "आहे आणि या च्या मध्ये ते हे एक होते नाही तो व की आहेत त्या असे झाला करून पण आपल्या प्रत्येक मी तुम्ही कोणत्याही असून केले ही त्यांच्या",
    "ळ",
  ),
  signs(
    "ne",
    "छ र को मा छन् ले लाई पनि भएको यो गर्न हुन् एक हो छैन तथा बाट त्यो गरी गरेको हुनेछ गर्ने वा प्रत्येक म तपाईं हामी हुन्छ छु थियो गरेका भने हरु",
  ),
];

function signs(code: string, words: string, letters = ""): LanguageSigns {
  return { code, words: new Set(words.split(" ")), letters };
}
