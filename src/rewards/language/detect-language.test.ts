import { expect, test } from "vitest";
import { detectableLanguages, detectLanguage } from "./detect-language.ts";

/** One everyday sentence or two for each language. */
const texts = {
  en: "We walked to the market this morning, but it was closed and there was nobody on the street.",
  es: "Esta mañana fuimos al mercado, pero estaba cerrado y no había nadie en la calle.",
  pt: "Hoje de manhã fomos ao mercado, mas ele estava fechado e não havia ninguém na rua.",
  fr: "Ce matin nous sommes allés au marché, mais il était fermé et il n'y avait personne dans la rue.",
  de: "Heute Morgen sind wir zum Markt gegangen, aber er war geschlossen und niemand war auf der Straße.",
  it: "Questa mattina siamo andati al mercato, ma era chiuso e non c'era nessuno per la strada.",
  nl: "Vanmorgen gingen we naar de markt, maar het was gesloten en er was niemand op straat.",
  sv: "I morse gick vi till marknaden, men den var stängd och det fanns ingen på gatan.",
  da: "I morges gik vi hen på markedet, men der var lukket og der var ikke nogen på gaden af dem jeg kendte.",
  fi: "Tänä aamuna menimme torille, mutta se oli kiinni eikä kadulla ollut ketään, joka olisi auttanut.",
  pl: "Dziś rano poszliśmy na targ, ale był zamknięty i na ulicy nie było nikogo.",
  cs: "Dnes ráno jsme šli na trh, ale byl zavřený a na ulici nikdo nebyl.",
  ro: "În această dimineață am mers la piață, dar era închisă și nu era nimeni pe stradă.",
  hu: "Ma reggel elmentünk a piacra, de az zárva volt, és senki sem volt az utcán.",
  tr: "Bu sabah pazara gittik ama kapalıydı ve sokakta hiç kimse yoktu.",
  id: "Tadi pagi kami pergi ke pasar, tetapi pasar itu tutup dan tidak ada orang di jalan.",
  sw: "Asubuhi hii tulikwenda sokoni, lakini lilikuwa limefungwa na hakuna mtu katika barabara.",
  vi: "Sáng nay chúng tôi đi chợ, nhưng chợ đã đóng cửa và không có ai trên đường.",
  ru: "Сегодня утром мы пошли на рынок, но он был закрыт, и на улице никого не было.",
  uk: "Сьогодні вранці ми пішли на ринок, але він був зачинений, і на вулиці нікого не було.",
  bg: "Тази сутрин отидохме на пазара, но той беше затворен и на улицата нямаше никой.",
  ar: "ذهبنا هذا الصباح إلى السوق ولكنه كان مغلقا ولم يكن هناك أحد في الشارع.",
  fa: "امروز صبح به بازار رفتیم اما بسته بود و هیچ کس در خیابان نبود.",
  ur: "آج صبح ہم بازار گئے لیکن وہ بند تھا اور سڑک پر کوئی نہیں تھا۔",
  hi: "आज सुबह हम बाज़ार गए लेकिन वह बंद था और सड़क पर कोई नहीं था।",
  mr: "आज सकाळी आम्ही बाजारात गेलो पण तो बंद होता आणि रस्त्यावर कोणीही नव्हते.",
  ne: "आज बिहान हामी बजार गयौं तर त्यो बन्द थियो र सडकमा कोही पनि थिएन।",
  ja: "今朝、市場に行きましたが、閉まっていて、通りには誰もいませんでした。",
  zh: "今天早上我们去了市场，但是市场关门了，街上没有人。",
  ko: "오늘 아침에 우리는 시장에 갔지만 문이 닫혀 있었고 거리에는 아무도 없었다.",
  th: "เช้านี้เราไปตลาด แต่ตลาดปิดและไม่มีใครอยู่บนถนน",
  bn: "আজ সকালে আমরা বাজারে গিয়েছিলাম কিন্তু তা বন্ধ ছিল।",
  gu: "આજે સવારે અમે બજાર ગયા પણ તે બંધ હતું.",
  pa: "ਅੱਜ ਸਵੇਰੇ ਅਸੀਂ ਬਾਜ਼ਾਰ ਗਏ ਪਰ ਉਹ ਬੰਦ ਸੀ।",
  ta: "இன்று காலை நாங்கள் சந்தைக்குச் சென்றோம், ஆனால் அது மூடப்பட்டிருந்தது.",
  te: "ఈ ఉదయం మేము మార్కెట్‌కి వెళ్ళాము కానీ అది మూసివేయబడింది.",
  kn: "ಇಂದು ಬೆಳಿಗ್ಗೆ ನಾವು ಮಾರುಕಟ್ಟೆಗೆ ಹೋದೆವು ಆದರೆ ಅದು ಮುಚ್ಚಿತ್ತು.",
  ml: "ഇന്ന് രാവിലെ ഞങ്ങൾ ചന്തയിൽ പോയി പക്ഷേ അത് അടച്ചിരുന്നു.",
  he: "הבוקר הלכנו לשוק אבל הוא היה סגור ולא היה אף אחד ברחוב.",
  el: "Σήμερα το πρωί πήγαμε στην αγορά αλλά ήταν κλειστή.",
};

test.each(Object.entries(texts))("%s is told from an everyday sentence", (code, text) => {
  expect(detectLanguage(text)).toBe(code);
});

test("capitals make no difference", () => {
  for (const code of ["en", "de", "fr", "pl", "ru", "vi"] as const) {
    expect(detectLanguage(texts[code].toUpperCase())).toBe(code);
  }
});

test("a foreign title does not outweigh the text", () => {
  expect(detectLanguage(`The Market\n\n${texts.hi}`)).toBe("hi");
});

test("what cannot be told is not guessed", () => {
  expect(["", "123 !?", "xyzzy", "ᚠᚢᚦ"].map(detectLanguage)).toEqual([undefined, undefined, undefined, undefined]);
});

test("every language that IFEval asks for can be told", () => {
  const asked = "en es pt ar hi fr ru de ja it bn uk th ur ta te bg ko pl he fa vi ne sw kn mr gu pa ml fi".split(" ");
  expect(asked.filter((code) => !detectableLanguages.includes(code))).toEqual([]);
});
