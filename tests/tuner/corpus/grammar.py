"""Small sentence grammars in many languages, written for this corpus; no sentence is taken from anywhere.

A language is a set of slots; a text draws sentences from its frames. FIT, MORE and HELD hold different words and frames;
no threshold was looked at on HELD, which the acceptance test judges.
"""

from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, slots=True, kw_only=True)
class Grammar:
    """Frames with `{slot}` places, the words of each slot, and what joins sentences."""

    frames: tuple[str, ...]
    slots: dict[str, tuple[str, ...]]
    joint: str = " "

    def sentence(self, chance: Random) -> str:
        """Make one sentence."""
        filled = chance.choice(self.frames)
        while "{" in filled:
            start = filled.index("{")
            end = filled.index("}", start)
            filled = filled[:start] + chance.choice(self.slots[filled[start + 1 : end]]) + filled[end + 1 :]
        return filled[0].upper() + filled[1:]

    def text(self, chance: Random, sentences: int) -> str:
        """Make several sentences, in paragraphs of some four; none stands twice in a row."""
        said: list[str] = []
        while len(said) < sentences:
            one = self.sentence(chance)
            if one not in said:
                said.append(one)
        parts = [self.joint.join(said[at : at + 4]) for at in range(0, len(said), 4)]
        return "\n\n".join(parts)


def _slots(**words: str) -> dict[str, tuple[str, ...]]:
    return {name: tuple(text.split("|")) for name, text in words.items()}


FIT: dict[str, Grammar] = {
    "English": Grammar(
        frames=(
            "the {adj} {noun} {verb} the {noun} {when}.",
            "{when}, a {noun} of the {place} {verb} every {adj} {noun}, and nobody {verb} it.",
            "if you {do} the {noun}, it will {do} more slowly than the {adj} one in the {place}.",
            "what the {noun} needs is a {adj} {noun}, not another {place}.",
            "there is a {place} where {noun}s are {adj} {when}.",
            "we {do} it {when} because the {noun} is too {adj} for a {place}.",
        ),
        slots=_slots(
            adj="quiet|heavy|early|narrow|brisk|honest|faded|patient|local|steep|broken|clever|hollow|warm|odd",
            noun="miller|engine|ledger|harbour|kettle|gardener|bridge|signal|baker|sailor|compass|meadow|lantern|clerk|valve|orchard|teacher|river",
            verb="repairs|watches|carried|measured|follows|counts|sold|remembers|ignored|replaces|paints",
            when="before noon|in the second winter|after the rain|on most days|towards evening|at the end of the month|without notice|once the pressure falls",
            place="village|workshop|station|northern valley|market hall|old quarry|library|shipyard|back room",
            do="open|clean|drain|check|move|cool|turn|store|mend",
        ),
    ),
    "German": Grammar(
        frames=(
            "der {adj} {noun} {verb} die Werkstatt {when}.",
            "{when} {verb} der {noun} nicht, weil das Wasser zu {kalt} ist.",
            "wer den {noun} kennt, der {verb} ihn auch {when} und mit {ding}.",
            "es gibt keinen {adj}n {noun}, der ohne {ding} auskommt.",
            "man sagt, dass {ding} und {ding} sich {when} von selbst ordnen.",
        ),
        slots=_slots(
            adj="alte|leise|fleißige|fremde|müde|kluge|breite|graue|ehrliche",
            noun="Müller|Bäcker|Lehrer|Kutter|Brunnen|Gärtner|Motor|Schlüssel|Fährmann|Wagen|Richter",
            verb="prüft|öffnet|verlässt|beobachtet|repariert|zeichnet|bezahlt|übersieht",
            when="am frühen Morgen|nach dem Regen|im zweiten Winter|gegen Abend|vor dem Markttag|ohne Eile|jeden Dienstag",
            kalt="kalt|trüb|hoch|salzig|knapp",
            ding="Werkzeug|Geduld|Papier|Kohle|Mehl|Licht|Glück|Tinte|Seil",
        ),
    ),
    "French": Grammar(
        frames=(
            "le {noun} {verb} la {chose} {quand}.",
            "{quand}, les {noun}s ne sont pas dans la {chose}, mais sur le {lieu}.",
            "il est {adj} que la {chose} soit plus {adj} que le {lieu}.",
            "une {chose} {adj} {verb} pour le {noun} qui attend au {lieu}.",
        ),
        slots=_slots(
            noun="boulanger|marin|notaire|jardinier|meunier|facteur|mécanicien|berger",
            verb="répare|regarde|compte|cache|oublie|traverse|mesure|achète",
            chose="maison|lettre|roue|barque|lampe|clé|table|montre|corde",
            quand="avant midi|après la pluie|au début du mois|vers le soir|sans raison|en hiver|chaque lundi",
            lieu="port|marché|pont|village|quai|jardin|moulin",
            adj="utile|rare|possible|étrange|fragile|large|tranquille|triste",
        ),
    ),
    "Spanish": Grammar(
        frames=(
            "el {noun} {verb} la {cosa} {cuando}.",
            "{cuando}, los {noun}s no están en la {cosa}, pero sí en el {lugar}.",
            "es {adj} que una {cosa} sea más {adj} que el {lugar} de su pueblo.",
            "cuando el {noun} {verb} la {cosa}, nadie lo ve por el {lugar}.",
        ),
        slots=_slots(
            noun="panadero|marinero|maestro|molinero|cartero|pastor|herrero|notario",
            verb="arregla|mira|cuenta|esconde|olvida|cruza|mide|compra",
            cosa="casa|carta|rueda|barca|lámpara|llave|mesa|cuerda|campana",
            cuando="antes del mediodía|después de la lluvia|al final del mes|por la tarde|sin motivo|en invierno|cada lunes",
            lugar="puerto|mercado|puente|camino|muelle|jardín|molino",
            adj="útil|raro|posible|frágil|ancho|tranquilo|triste|fácil",
        ),
    ),
    "Chinese": Grammar(
        frames=(
            "{time}，{who}在{place}里{do}了{thing}。",
            "因为{thing}太{adj}，{who}决定先去{place}。",
            "如果{who}没有{thing}，那么{place}就会变得很{adj}。",
            "{who}说，{adj}的{thing}比{thing}更重要。",
            "从{place}到{place}需要{adj}的{thing}。",
        ),
        slots=_slots(
            time="昨天早上|下雨以后|第二年冬天|傍晚时分|每个星期一|不久之前|会议结束后",
            who="老师|船长|面包师|工程师|邻居|学生们|园丁|司机|邮递员",
            place="图书馆|市场|火车站|小镇|工厂|山谷|码头|花园|博物馆",
            do="修理|发现|丢失|测量|整理|购买|画出|记录",
            thing="钥匙|地图|发动机|信件|灯笼|茶壶|账本|望远镜|桥梁|机器",
            adj="安静|沉重|古老|漂亮|复杂|便宜|温暖|奇怪|明亮",
        ),
        joint="",
    ),
    "Japanese": Grammar(
        frames=(
            "{time}、{who}は{place}で{thing}を{do}。",
            "{thing}が{adj}ので、{who}は{place}へ行きました。",
            "{who}によると、{place}の{thing}はとても{adj}そうです。",
            "もし{thing}がなければ、{place}は{adj}と思います。",
        ),
        slots=_slots(
            time="昨日の朝|雨のあと|二年目の冬|夕方になると|月曜日ごとに|会議のあと",
            who="先生|船長|パン屋さん|技術者|隣の人|学生たち|庭師|運転手",
            place="図書館|市場|駅|小さな町|工場|谷|港|庭",
            do="直しました|見つけました|なくしました|測りました|買いました|描きました|片づけました",
            thing="鍵|地図|エンジン|手紙|ランプ|やかん|帳簿|望遠鏡|橋|ラジオ",
            adj="静かだ|重い|古い|きれいだ|難しい|安い|暖かい|明るい",
        ),
        joint="",
    ),
    "Russian": Grammar(
        frames=(
            "{when} {who} {did} {what} и сразу ушёл домой.",
            "{who} не знает, почему {what} лежит {where}.",
            "если бы {who} нашёл {what} раньше, {where} было бы тише.",
            "говорят, что {where} никто {when} не {did} {what}.",
        ),
        slots=_slots(
            when="утром|после дождя|второй зимой|ближе к вечеру|каждый вторник|без причины",
            who="мельник|учитель|капитан|пекарь|инженер|сосед|садовник|почтальон",
            did="починил|увидел|потерял|измерил|купил|нарисовал|записал|забыл",
            what="ключ|карту|двигатель|письмо|фонарь|чайник|книгу|мост|лодку",
            where="на рынке|в старом городе|возле реки|на вокзале|в мастерской|за садом",
        ),
    ),
    "Arabic": Grammar(
        frames=(
            "{when} {did} {who} {what} في {where}.",
            "لا يعرف {who} لماذا بقي {what} في {where} {when}.",
            "يقول {who} إن {what} أهم من {what} في هذا {where}.",
        ),
        slots=_slots(
            when="في الصباح|بعد المطر|قبل الظهر|كل يوم اثنين|في آخر الشهر|عند المساء",
            did="أصلح|رأى|فقد|قاس|اشترى|رسم|كتب|نسي",
            who="المعلم|القبطان|الخباز|المهندس|الجار|البستاني|السائق|الطالب",
            what="المفتاح|الخريطة|المحرك|الرسالة|المصباح|الكتاب|الجسر|القارب",
            where="السوق|المكتبة|المحطة|القرية|المصنع|الوادي|الميناء",
        ),
    ),
}

MORE: dict[str, Grammar] = {
    "English": Grammar(
        frames=(
            "most {people} agree that {topic} was {judged} long before {topic} came up.",
            "to understand {topic}, one has to look at how {people} {act} and at what they leave out.",
            "{link}, {topic} can be {judged} by {people} who have never seen a {object}.",
            "a {object} that {people} {act} costs less than it did, but only where {topic} is {judged}.",
            "in short: {people} {act}, and the {object} stays where it was.",
            "she asked whether the {object} had anything to do with {topic}; it had not.",
            "do not put the {object} near heat, since it may be {judged} by accident.",
        ),
        slots=_slots(
            people="historians|farmers|nurses|programmers|tourists|critics|children|engineers|voters|pilots|chemists",
            topic="inflation|the tide|memory|photosynthesis|the treaty|gravity|taste|the census|erosion|trust|migration|the grid",
            judged="forgotten|tested|misread|accepted|taxed|simplified|banned|explained|delayed|praised",
            act="work|argue|travel|vote|sleep|build dams|pack their bags|write reports|wait for spring|share tools",
            object="ladder|thermometer|notebook|container|passport|mirror|battery|violin|tractor|telescope|contract|saucepan",
            link="for example|on the other hand|as a rule|strangely enough|in practice|even so|to begin with",
        ),
    ),
    "German": Grammar(
        frames=(
            "viele {leute} glauben, dass {thema} mit {sache} wenig zu tun hat.",
            "zunächst wird {sache} {getan}, danach kann auch {thema} {getan} werden.",
            "für {leute} ist {thema} oft wichtiger als für die anderen, aber nicht immer.",
            "das hängt davon ab, ob {leute} sich auf {sache} verlassen oder nur auf {thema}.",
            "im Vergleich dazu hat {thema} eine lange Geschichte, die kaum noch {getan} wird.",
        ),
        slots=_slots(
            leute="Forscher|Reisende|Bauern|Ärztinnen|Kinder|Mieter|Musiker|Fahrgäste|Richter",
            thema="die Inflation|das Wetter|der Handel|die Schwerkraft|das Gedächtnis|der Verkehr|die Erosion|das Wahlrecht",
            sache="Strom|Vertrauen|Kupfer|Statistik|Regenwasser|Software|Eisen|Milch|Zeit",
            getan="gemessen|vergessen|erklärt|gesammelt|verkauft|geprüft|vereinfacht|besteuert",
        ),
    ),
    "French": Grammar(
        frames=(
            "la plupart des {gens} pensent que {sujet} est {fait} depuis longtemps.",
            "pour comprendre {sujet}, il faut regarder ce que les {gens} font avec un {objet}.",
            "en revanche, {sujet} ne dépend pas du {objet}, et les {gens} le savent.",
            "on dit souvent que le {objet} était {fait} par des {gens} venus d'ailleurs.",
        ),
        slots=_slots(
            gens="historiens|paysans|voyageurs|enfants|ingénieurs|médecins|électeurs|pilotes",
            sujet="la mémoire|le commerce|la marée|l'inflation|le climat|la confiance|l'érosion|le goût",
            fait="oublié|mesuré|expliqué|interdit|accepté|vendu|simplifié",
            objet="miroir|passeport|tracteur|carnet|violon|contrat|thermomètre|panier",
        ),
    ),
    "Spanish": Grammar(
        frames=(
            "la mayoría de los {gente} creen que {tema} fue {hecho} hace mucho.",
            "para entender {tema} hay que mirar lo que hacen los {gente} con un {objeto}.",
            "por otra parte, {tema} no depende del {objeto}, y los {gente} lo saben muy bien.",
            "se dice que el {objeto} era {hecho} por unos {gente} que venían del sur.",
        ),
        slots=_slots(
            gente="historiadores|campesinos|viajeros|niños|ingenieros|médicos|votantes|pilotos",
            tema="la memoria|el comercio|la marea|la inflación|el clima|la confianza|el gusto",
            hecho="olvidado|medido|explicado|prohibido|aceptado|vendido",
            objeto="espejo|pasaporte|tractor|cuaderno|violín|contrato|termómetro|cesto",
        ),
    ),
    "Chinese": Grammar(
        frames=(
            "许多{people}认为{topic}与{object}没有直接关系。",
            "要理解{topic}，首先应当观察{people}怎样使用{object}。",
            "另一方面，{topic}往往被{people}{done}，尤其是在{season}。",
            "{season}的时候，{object}的价格会随着{topic}而变化。",
            "换句话说，没有{object}，{people}也能{done}{topic}。",
        ),
        slots=_slots(
            people="历史学家|农民|护士|程序员|游客|评论家|孩子|飞行员|化学家",
            topic="通货膨胀|潮汐|记忆|光合作用|条约|重力|人口普查|水土流失|信任",
            object="梯子|温度计|笔记本|集装箱|护照|镜子|电池|小提琴|拖拉机|合同",
            done="忽视|检验|误解|接受|简化|解释|推迟",
            season="春耕|雨季|假期|收获|战后|考试前|深夜",
        ),
        joint="",
    ),
    "Japanese": Grammar(
        frames=(
            "多くの{people}は{topic}と{object}が関係ないと考えています。",
            "{topic}を理解するには、まず{people}が{object}をどう使うかを見る必要があります。",
            "一方で、{topic}は{season}に{done}ことが多いです。",
            "{season}には{object}の値段が{topic}とともに変わります。",
        ),
        slots=_slots(
            people="歴史家|農家|看護師|プログラマー|観光客|批評家|子ども|操縦士",
            topic="インフレ|潮の満ち引き|記憶|光合成|条約|重力|国勢調査|信頼",
            object="はしご|温度計|ノート|コンテナ|パスポート|鏡|電池|バイオリン",
            done="忘れられる|試される|誤解される|受け入れられる|説明される",
            season="春|梅雨|休み|収穫期|試験前|深夜",
        ),
        joint="",
    ),
    "Russian": Grammar(
        frames=(
            "многие {people} считают, что {topic} не имеет отношения к делу.",
            "чтобы понять, как устроена {topic}, {people} сначала изучают {object}.",
            "с другой стороны, {topic} часто {done}, особенно если рядом {object}.",
            "другими словами, {people} могут обойтись без этого, но {object} им всё же нужен.",
        ),
        slots=_slots(
            people="историки|фермеры|врачи|туристы|критики|дети|лётчики|химики|избиратели",
            topic="инфляция|память|торговля|гравитация|перепись|эрозия|миграция",
            object="термометр|блокнот|паспорт|аккумулятор|трактор|договор|телескоп",
            done="забывается|проверяется|упрощается|объясняется|откладывается",
        ),
    ),
    "Arabic": Grammar(
        frames=(
            "يرى كثير من {people} أن {topic} لا علاقة لها بهذا {object}.",
            "لكي نفهم {topic} يجب أن ننظر إلى ما يفعله {people} مع {object}.",
            "من ناحية أخرى فإن {topic} تعتمد على {object} وعلى صبر {people}.",
            "يقال إن {object} كان مهما عند {people} قبل ظهور {topic}.",
        ),
        slots=_slots(
            people="المؤرخين|المزارعين|المسافرين|الأطفال|الأطباء|النقاد|الطيارين",
            topic="الذاكرة|التجارة|الجاذبية|الهجرة|الثقة|الضريبة|الملاحة",
            object="الدفتر|الميزان|الجواز|العقد|السلم|الوعاء|الهاتف",
        ),
    ),
}

HELD: dict[str, Grammar] = {
    "English": Grammar(
        frames=(
            "although {who} had promised {gift}, the {thing} arrived without {gift} and with a bill.",
            "you can {act} your {thing} in two ways: ask {who}, or {act} it yourself while it is {how}.",
            "I once met {who} who could {act} any {thing} by ear.",
            "its {thing} was {how}, its price was not; {who} bought it anyway.",
            "nothing here is {how} except the {thing} that {who} left behind in {place}.",
            "from {place} to {place} takes a day by {thing}, or two if {who} drives.",
            "never {act} a {how} {thing} in {place}!",
            "why would {who} {act} it again?",
        ),
        slots=_slots(
            who="my cousin|a tailor|the mayor|some beekeeper|our landlord|a retired diver|the twins|her dentist|an intern",
            gift="flowers|a receipt|spare parts|breakfast|an apology|instructions|new strings|salt",
            thing="bicycle|piano|oven|parrot|raincoat|drone|sofa|microscope|suitcase|clock|printer|canoe",
            act="tune|borrow|paint|polish|return|insure|dismantle|rename|weigh",
            how="damp|fragile|free|upside down|loud|new|half asleep|blue|for sale|in pieces",
            place="Lisbon|the attic|a tunnel|Oslo|the lobby|Kyoto|the greenhouse|Quito|a lighthouse",
        ),
    ),
    "Italian": Grammar(
        frames=(
            "{chi} non voleva {fare} la {cosa}, ma alla fine l'ha fatto {come}.",
            "secondo {chi}, la {cosa} è più cara di una {cosa} usata e anche più {quale}.",
            "per {fare} una {cosa} servono tempo, pazienza e un po' di fortuna, come dice {chi}.",
            "nel {luogo} c'è una {cosa} {quale} che {chi} vorrebbe {fare} {come}.",
        ),
        slots=_slots(
            chi="mio zio|la sarta|il sindaco|un apicoltore|la dentista|il portiere|una cuoca",
            fare="vendere|dipingere|pesare|smontare|restituire|lucidare|assicurare",
            cosa="bicicletta|valigia|stufa|canoa|stampante|poltrona|chitarra|barca",
            come="di notte|senza fretta|con cura|da sola|in segreto|per scherzo",
            quale="fragile|azzurra|umida|nuova|rotta|leggera",
            luogo="cortile|museo|garage|giardino|porto",
        ),
    ),
    "Portuguese": Grammar(
        frames=(
            "{quem} não queria {fazer} a {coisa}, mas no fim também foi {como}.",
            "segundo {quem}, a {coisa} é mais cara do que uma {coisa} usada.",
            "para {fazer} uma {coisa} são precisos tempo e um pouco de sorte, como diz {quem}.",
            "no {lugar} há uma {coisa} {qual} que {quem} ainda quer {fazer}.",
        ),
        slots=_slots(
            quem="o meu tio|a costureira|o prefeito|um apicultor|a dentista|o porteiro|uma cozinheira",
            fazer="vender|pintar|pesar|desmontar|devolver|polir",
            coisa="bicicleta|mala|panela|canoa|impressora|poltrona|guitarra",
            como="à noite|sem pressa|com cuidado|em segredo|por brincadeira",
            qual="frágil|azul|úmida|nova|quebrada|leve",
            lugar="quintal|museu|porto|jardim|sótão",
        ),
    ),
    "Dutch": Grammar(
        frames=(
            "{wie} wilde de {ding} niet {doen}, maar deed het toch {hoe}.",
            "volgens {wie} is een {ding} duurder dan een oude {ding} van de markt.",
            "om een {ding} te {doen} heb je tijd nodig en ook wat geluk, zegt {wie}.",
            "in het {plek} staat nog een {ding} die {wie} graag zou {doen}.",
        ),
        slots=_slots(
            wie="mijn oom|de kleermaker|de burgemeester|een imker|de tandarts|de portier|onze buurvrouw",
            doen="verkopen|schilderen|wegen|slopen|lenen|poetsen|verzekeren",
            ding="fiets|koffer|oven|kano|printer|stoel|gitaar|klok",
            hoe="in de nacht|zonder haast|met zorg|in het geheim|voor de grap",
            plek="museum|tuinhuis|dorp|magazijn|trappenhuis",
        ),
    ),
    "Polish": Grammar(
        frames=(
            "{kto} nie chciał {robic} tego, ale w końcu zrobił to {jak}.",
            "według niego {rzecz} jest droższy niż {rzecz} z targu, a {kto} się z tym zgadza.",
            "żeby to {robic}, potrzeba czasu i trochę szczęścia, jak mówi {kto}.",
            "w {gdzie} stoi jeszcze {rzecz}, który {kto} chętnie by zabrał do domu.",
        ),
        slots=_slots(
            kto="mój wujek|krawiec|burmistrz|pszczelarz|dentysta|portier|sąsiad",
            robic="sprzedać|pomalować|zważyć|rozebrać|oddać|ubezpieczyć",
            rzecz="rower|piec|kajak|zegar|fotel|mikroskop|parasol",
            jak="w nocy|bez pośpiechu|dla żartu|po cichu|z uwagą",
            gdzie="muzeum|ogrodzie|piwnicy|porcie|magazynie",
        ),
    ),
    "Turkish": Grammar(
        frames=(
            "{kim} bu {sey} için çok para verdi ama {nasil} geri getirdi.",
            "bir {sey} almak {kim} için kolay değil, çünkü {yer} çok uzak.",
            "{yer} içinde {kim} ile birlikte eski bir {sey} bulduk ve {nasil} taşıdık.",
            "{kim} daha sonra {sey} ne kadar eder diye sordu.",
        ),
        slots=_slots(
            kim="amcam|terzi|belediye başkanı|arıcı|dişçi|kapıcı|komşumuz",
            sey="bisiklet|bavul|fırın|kano|saat|koltuk|gitar|şemsiye",
            nasil="gece|acele etmeden|gizlice|şaka olsun diye|dikkatle",
            yer="müze|bahçe|bodrum|liman|depo",
        ),
    ),
    "Korean": Grammar(
        frames=(
            "{who} {when} {place}에서 {thing} {did}.",
            "{thing} 때문에 {who} {place}까지 걸어갔습니다.",
            "{place}에 있는 오래된 {thing} {who} 마음에 들어 했습니다.",
            "그런데 {when} {who} {thing} 다시 {did}.",
        ),
        slots=_slots(
            who="삼촌은|재단사는|시장은|양봉가는|치과 의사는|이웃은|요리사는",
            when="밤에|어제|비가 온 뒤에|주말마다|조용히|갑자기",
            place="박물관|정원|항구|창고|다락방|도서관",
            thing="자전거를|가방을|오븐을|카누를|시계를|의자를|기타를",
            did="팔았습니다|칠했습니다|고쳤습니다|빌렸습니다|돌려주었습니다",
        ),
    ),
    "Hindi": Grammar(
        frames=(
            "{who} ने {when} {place} में {thing} {did}।",
            "{thing} के कारण {who} को {place} तक पैदल जाना पड़ा।",
            "{place} में रखी पुरानी {thing} {who} को बहुत पसंद आई।",
        ),
        slots=_slots(
            who="चाचा|दर्ज़ी|महापौर|पड़ोसी|डॉक्टर|रसोइया|माली",
            when="रात को|कल|बारिश के बाद|चुपचाप|अचानक",
            place="संग्रहालय|बगीचे|बंदरगाह|गोदाम|पुस्तकालय",
            thing="साइकिल|घड़ी|कुर्सी|नाव|किताब|चाबी",
            did="बेची|रंगी|सुधारी|लौटाई|देखी",
        ),
    ),
    "Ukrainian": Grammar(
        frames=(
            "{who} не хотів {do} це, але {when} таки зробив.",
            "на думку сусідки, {thing} дорожчий, ніж старий {thing} з ринку.",
            "щоб {do} {thing}, потрібен час і трохи удачі, каже {who}.",
            "у {place} досі стоїть {thing}, який {who} мріє забрати.",
        ),
        slots=_slots(
            who="мій дядько|кравець|мер міста|бджоляр|лікар|кухар",
            do="продати|пофарбувати|зважити|розібрати|повернути",
            when="уночі|зрештою|наступного дня|без поспіху",
            thing="велосипед|годинник|човен|стілець|мікроскоп",
            place="музеї|садку|порту|підвалі",
        ),
    ),
    "Traditional Chinese": Grammar(
        frames=(
            "{who}雖然答應過要帶{gift}，最後卻只帶來一張帳單。",
            "想要{do}{thing}，可以請教{who}，也可以自己慢慢試。",
            "我曾經遇過{who}，他閉著眼睛就能{do}任何{thing}。",
            "{place}裡什麼都不{how}，只有那{thing}例外。",
            "為什麼{who}還要再{do}一次呢？",
        ),
        slots=_slots(
            who="表哥|裁縫|鎮長|養蜂人|房東|退休潛水員|牙醫|實習生",
            gift="鮮花|收據|零件|早餐|說明書|鹽",
            do="調整|借用|油漆|擦亮|歸還|拆開|秤重",
            thing="腳踏車|鋼琴|烤箱|鸚鵡|雨衣|沙發|顯微鏡|行李箱",
            how="潮濕|脆弱|免費|吵鬧|新鮮|便宜",
            place="閣樓|隧道|大廳|溫室|燈塔|倉庫",
        ),
        joint="",
    ),
}
