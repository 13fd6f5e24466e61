(()=>{var M,zt,Eo,re,ht,We,Vt,Be,Qt,_t,$t,To,De=Symbol.for("pv"),je={},ze=[],Mo=/^m(i|n|o|s|text|space)$/,gt=Array.isArray,yt=ze.slice,de=Object.assign;function fe(t){t&&t.parentNode&&t.remove()}function Yt(t,e,n){var o,a,s,i={},l=arguments.length;for(s in e)s=="key"?o=e[s]:s=="ref"&&typeof t!="function"?a=e[s]:i[s]=e[s];return l>2&&(i.children=l>3?yt.call(arguments,2):n),Ae(t,i,o,a,null)}function Ae(t,e,n,o,a){var s={type:t,props:e,key:n,ref:o,__k:null,__:null,__b:0,__e:null,__c:null,constructor:De,__v:a||++zt,__i:-1,__u:0};return!a&&M.vnode&&M.vnode(s),s}function Le(t){return t.children}function ne(t,e){this.props=t,this.context=e,this.__g=0}function ie(t,e){if(e==null)return t.__&&ie(t.__,t.__i+1);for(var n;e<t.__k.length;e++)if((n=t.__k[e])&&n.__e)return n.__e;return typeof t.type!="function"||t.props.__P?null:ie(t)}function No(t){var e,n=t.__v,o=n.__e,a=[],s=[],i=t.__P;i&&((e=de({constructor:De},n)).__v=n.__v+1,M.vnode&&M.vnode(e),vt(i,e,n,t.__n,i.namespaceURI,32&n.__u?[o]:null,a,o||ie(n),32&n.__u,s),e.__v=n.__v,e.__.__k[e.__i]=e,tn(a,e,s),n.__=n.__e=null,e.__e!=o&&Xt(e))}function Xt(t){if((t=t.__)&&t.__c&&!t.props.__P)return t.__e=null,t.__k.some(function(e){return e&&(t.__e=e.__e)}),Xt(t)}function Wt(t){(8&t.__g||(t.__g|=8,re.push(t),We++))&&ht==M.debounceRendering||((ht=M.debounceRendering)||queueMicrotask)(Gt)}function Gt(){try{for(var t,e=1;re.length;)re.length>e&&re.sort(Vt),t=re.shift(),e=re.length,8&t.__g&&No(t)}finally{(We=re.length)&&(ht||queueMicrotask)(Gt)}}function Jt(t,e,n,o,a,s,i,l,p,f,c){var m,d,u,h,g,_,x=o.__k||ze,$=e.length;for(p=Ao(n,e,x,p,$),m=0;m<$;m++)(u=n.__k[m])!=null&&(d=~u.__i&&x[u.__i]||je,u.__i=m,_=vt(t,u,d,a,s,i,l,p,f,c),h=u.__e,(d.ref!=u.ref||8&d.__u)&&(d.ref&&bt(d.ref,null,u,d),u.ref&&c.push(u.ref,u.__c||h,u)),g=g||h,4&u.__u?(p=Zt(u,p,t,!d.__v),d.__e&&(d.__e=null)):typeof u.type=="function"&&_!==void 0?p=_:h&&(p=h.nextSibling),u.__u&=-21);return n.__e=g,p}function Ao(t,e,n,o,a){var s,i,l,p,f,c,m,d,u,h=n.length,g=h,_=0,x=0,$=t.__k=Array(a);for(s=0;s<a;s++)(i=e[s])!=null&&typeof i!="boolean"&&typeof i!="function"?(typeof i!="object"||i.constructor===String?i=$[s]=Ae(null,i):gt(i)?i=$[s]=Ae(Le,{children:i}):i.constructor===De&&i.__b?i=$[s]=Ae(i.type,i.props,i.key,i.ref,i.__v):$[s]=i,p=s+_,i.__=t,i.__b=t.__b+1,l=null,~(f=i.__i=Do(i,n,p,g))&&(g--,(l=n[f])&&(l.__u|=2)),l&&l.__v?(i.__u|=16,f==p-1?_--:f==p+1?_++:f!=p&&(f>p?_--:_++,x=1)):(~f||(a>h?_--:a<h&&_++),typeof i.type!="function"&&(i.__u|=4))):$[s]=null;if(x){for(c=[],m=[],s=0;s<a;s++)if((i=$[s])&&16&i.__u){for(_=0,d=c.length;_<d;)c[u=_+d>>1]<i.__i?_=u+1:d=u;c[_]=i.__i,m[s]=_+1}for(_=c.length;s--;)m[s]&&(m[s]==_?_--:$[s].__u|=4)}if(g)for(s=0;s<h;s++)!(l=n[s])||2&l.__u||(l.__e==o&&(o=ie(l)),xt(l,l));return o}function Zt(t,e,n,o){var a,s,i,l;if(typeof t.type=="function"){if(t.props.__P)return e;if(a=t.__k)for(s=0;s<a.length;s++)a[s]&&(a[s].__=t,e=Zt(a[s],e,n,!1));return e}for(e&&!e.parentNode&&(e=ie(t))&&!e.parentNode&&(e=null),i=t.__e,l=e;l&&l.nodeType==8;)l=l.nextSibling;for(i!=l&&(!o&&n.moveBefore&&i.parentNode?n.moveBefore(i,e):n.insertBefore(i,e||null)),e=i;(e=e&&e.nextSibling)&&e.nodeType==8&&!e.data.startsWith("$s"););return e}function Do(t,e,n,o){var a,s=t.key,i=t.type,l=e[n],p=l&&!(2&l.__u);if(l===null&&s==null||p&&s==l.key&&i==l.type)return n;if(o>(p?1:0)){for(a=n-1;a>=0;a--)if((l=e[a])&&!(2&l.__u)&&s==l.key&&i==l.type)return a;for(a=n+1;a<e.length;a++)if((l=e[a])&&!(2&l.__u)&&s==l.key&&i==l.type)return a}return-1}function jt(t,e,n){n==null&&(n=""),e[0]=="-"?t.setProperty(e,n):t[e]=n}function Ue(t,e,n,o,a){var s,i;if(e=="style")if(typeof n=="string")t.style.cssText=n;else{if(typeof o=="string"&&(t.style.cssText=o=""),o)for(e in o)n&&e in n||jt(t.style,e);if(n)for(e in n)o&&n[e]==o[e]||jt(t.style,e,n[e])}else if(e[0]=="o"&&e[1]=="n")typeof n!="function"&&(n=null),typeof o!="function"&&(o=null),(t.__e||(t.__e={}))[e]=n,n&&o||(i=$t[e]||($t[e]=Lo(e)),(t.__a||(t.__a={}))[e]=_t,s=e!=(e=e.replace(Qt,"$1")),(e=e.slice(2))[0]<"a"&&(e=e.toLowerCase()),n?t.addEventListener(e,i,s):t.removeEventListener(e,i,s));else{if(a=="http://www.w3.org/2000/svg")e=e.replace(/xlink(H|:h)/,"h").replace(/sName$/,"s");else if(e!="width"&&e!="height"&&e!="href"&&e!="list"&&e!="form"&&e!="tabIndex"&&e!="download"&&e!="rowSpan"&&e!="colSpan"&&e!="role"&&e!="popover"&&e in t)try{return void(t[e]=n??"")}catch{}if(typeof n=="function")return;n==null||n===!1&&e[4]!="-"?t.removeAttribute(e):t.setAttribute(e,e=="popover"&&n==1?"":n)}}function Lo(t){return function(e){var n=this.__e;if(n){if(n=n[t],e[Be]==null)e[Be]=_t++;else if(e[Be]<this.__a[t])return;return n(M.event?M.event(e):e)}}}function vt(t,e,n,o,a,s,i,l,p,f){var c,m,d,u,h,g,_,x,$,S,C,K,T,W,O,k,b,w,q=e.type;if(e.constructor!==De)return null;128&n.__u&&(p=32&n.__u,c=n.__c.__z)&&(e.__u|=p,m=s=[],c.nodeType==8?l=Ke(c,s):s.push(c),l=s[0]||l),(c=M.__b)&&c(e);e:if(typeof q=="function"){d=i.length;try{if(x=e.props,$=(c=q.prototype)&&c.render,S=(c=q.contextType)&&o[c.__c],C=c?S?S.props.value:c.__:o,(u=n.__c)?(e.__c=u,2&u.__g&&(u.__g|=1)):($?e.__c=u=new q(x,C):(e.__c=u=new ne(x,C),u.constructor=q,u.render=Po),S&&S.sub(u),u.state||(u.state={}),u.__n=o,u.__g|=8,u.__h=[],u.__k=[]),$&&(u.__s||(u.__s=u.state),q.getDerivedStateFromProps&&(u.__s==u.state&&(u.__s=de({},u.__s)),de(u.__s,q.getDerivedStateFromProps(x,u.__s)))),h=u.props,g=u.state,u.__v=e,n.__c){if(x!==h&&$&&!q.getDerivedStateFromProps&&u.componentWillReceiveProps&&u.componentWillReceiveProps(x,C),e.__v==n.__v&&!(8&u.__g)||!(4&u.__g)&&u.shouldComponentUpdate&&u.shouldComponentUpdate(x,u.__s,C)===!1){e.__v!=n.__v&&(u.props=x,u.state=u.__s,u.__g&=-9),e.__e=n.__e,e.__k=n.__k,e.__k.some(function(L){L&&(L.__=e)}),ze.push.apply(u.__h,u.__k),u.__k=[],u.__h.length&&i.push(u),l=ie(n);break e}u.componentWillUpdate&&u.componentWillUpdate(x,u.__s,C),$&&u.componentDidUpdate&&u.__h.push(function(){u.componentDidUpdate(h,g,_)})}else $&&!q.getDerivedStateFromProps&&u.componentWillMount&&u.componentWillMount(),$&&u.componentDidMount&&u.__h.push(u.componentDidMount);u.context=C,u.props=x,u.__P=t,u.__g&=-5,K=M.__r,T=$?25:0;do u.__g&=-9,K&&K(e),c=u.render(u.props,u.state=u.__s,u.context);while(8&u.__g&&++T<25);$&&(ze.push.apply(u.__h,u.__k),u.__k=[]),u.state=u.__s,u.getChildContext&&(o=de({},o,u.getChildContext())),$&&n.__c&&u.getSnapshotBeforeUpdate&&(_=u.getSnapshotBeforeUpdate(h,g)),W=c&&c.type===Le&&c.key==null?c.props.children:c,x.__P&&(c=l,a=(t=x.__P).namespaceURI,p=s=null,n.props&&n.props.__P!=t&&(n.__k.some(function(L){L&&xt(L,L)}),n.__k=null),l=n.__k?ie(n,0):null),l=Jt(t,gt(W)?W:[W],e,n,o,a,s,i,l,p,f),x.__P&&(e.__e=null,l=c),e.__u&=-161,m&&m.some(fe),u.__h.length&&i.push(u),1&u.__g&&(u.__g&=-4)}catch(L){if(i.length=d,e.__v=null,p||s)if(L&&L.then){if(e.__u|=128|p,s){for(~(b=s.indexOf(l||void 0))||(b=s.length);(w=s[b-1])&&w.nodeType==8;)b--;for(;b<s.length;b++)if(w=s[b])if(s[b]=null,O){if(w==k)break}else{if(w.nodeType!=8)break;w.data.startsWith("$s")&&(k=Ke(O=w))}}if(!O){for(;l&&l.nodeType==8&&l.nextSibling;)l=l.nextSibling;O=l}(c=Ke(O=e.__c.__z||(e.__c.__z=O)))?(e.__e=O,l=c):e.__e=l,l=l&&l.nextSibling}else s&&s.some(fe);else e.__e=n.__e;e.__k||(e.__k=n.__k||[]),L&&L.then||en(e),M.__e(L,e,n)}}else l=e.__e=Ro(n.__e,e,n,o,a,s,i,p,f,t);return(c=M.diffed)&&c(e),l}function Ke(t,e){if(t&&t.nodeType==8&&t.data.startsWith("$s"))for(var n=1;t=t.nextSibling;){if(t.nodeType==8){if(t.data.startsWith("$s"))n++;else if(t.data.startsWith("/$s")&&!--n)return t}e&&e.push(t)}}function en(t){t&&(t.__c&&(t.__c.__g|=4),t.__k&&t.__k.some(en))}function tn(t,e,n){for(var o=0;o<n.length;)bt(n[o++],n[o++],n[o++]);M.__c&&M.__c(e,t),t.some(function(a){try{t=a.__h,a.__h=[],t.some(function(s){s.call(a)})}catch(s){M.__e(s,a.__v)}})}function Ro(t,e,n,o,a,s,i,l,p,f){var c,m,d,u,h,g,_,x,$=n.props||je,S=e.props,C=e.type;if(C=="svg"?a="http://www.w3.org/2000/svg":C=="math"?a="http://www.w3.org/1998/Math/MathML":a||(a="http://www.w3.org/1999/xhtml"),s){for(c=0;c<s.length;c++)if((h=s[c])&&(C?h.localName==C:h.nodeType==3)){t=h,s[c]=null;break}}if(!t){if(x=f.ownerDocument||document,!C)return x.createTextNode(S);t=x.createElementNS(a,C,S.is?S:f),l&&(M.__m&&M.__m(e,s),l=!1),s=null}if(C){if(f=C=="template"&&t.content||t,s=C=="textarea"&&S.defaultValue!=null?null:s&&yt.call(f.childNodes),!l&&s)for($={},c=0;c<t.attributes.length;c++)$[(h=t.attributes[c]).name]=h.value;for(c in $)h=$[c],c=="dangerouslySetInnerHTML"?d=h:c=="children"||c in S||c=="value"&&"defaultValue"in S||c=="checked"&&"defaultChecked"in S||Ue(t,c,null,h,a);for(c in S)h=S[c],c=="children"?u=h:c=="dangerouslySetInnerHTML"?m=h:c=="value"?g=h:c=="checked"?_=h:l&&typeof h!="function"||$[c]===h||Ue(t,c,h,$[c],a);m?(l||d&&(m.__html==d.__html||m.__html==t.innerHTML)||(t.innerHTML=m.__html),e.__k=[]):(d&&(t.textContent=""),(C=="foreignObject"||a=="http://www.w3.org/1998/Math/MathML"&&Mo.test(C))&&(a="http://www.w3.org/1999/xhtml"),Jt(f,gt(u)?u:[u],e,n,o,a,s,i,s?s[0]:n.__k&&ie(n,0),l,p),s&&s.some(fe)),l&&C!="textarea"||(c="value",C=="progress"&&g==null?t.removeAttribute(c):g==null||g===t[c]&&(C!="progress"||g)||Ue(t,c,g,$[c],a),c="checked",_!=null&&_!=t[c]&&Ue(t,c,_,$[c],a))}else $===S||l&&t.data==S||(t.data=S);return t}function bt(t,e,n,o){try{typeof t=="function"?e?e.__x=t(e)||1:o&&(o=o.__c||o.__e)&&(e=o.__x)&&(o.__x=null,typeof e=="function"?e():t(null)):t.current=e}catch(a){M.__e(a,n)}}function xt(t,e,n){var o,a,s,i;if(M.unmount&&M.unmount(t),!(o=t.ref)||o.current&&o.current!=t.__e||bt(o,null,e,t),o=t.__c){if(o.componentWillUnmount)try{o.componentWillUnmount()}catch(l){M.__e(l,e)}o.__P=o.__n=null}if(o=t.__k)for(i=0;i<o.length;i++)o[i]&&xt(o[i],e,typeof t.type!="function"||n&&!t.props.__P);!n&&(o=t.__c)&&(o=o.__z)&&(a=Ke(o,s=[]))&&(o==t.__e&&s.some(fe),fe(a),fe(o)),n||fe(t.__e),t.__e=t.__c=t.__=null}function Po(t,e,n){return this.constructor(t,n)}function wt(t,e){var n,o,a,s;M.__&&M.__(t,e),e.nodeType==9&&(e=e.documentElement),o=(n=t&&32&t.__u)?null:e.__k,e.__k=Ae(Le,{children:[t]}),a=[],s=[],vt(e,e.__k,o||je,je,e.namespaceURI,o?null:e.firstChild?yt.call(e.childNodes):null,a,o?o.__e:e.firstChild,n,s),tn(a,e.__k,s),e.__k.props.children=null}M={__e:function(t,e,n,o){for(var a,s,i;e=e.__;)if((a=e.__c)&&!(1&a.__g)){a.__g|=4;try{if((i=(s=a.constructor)&&s.getDerivedStateFromError)&&a.setState(s.getDerivedStateFromError(t)),a.componentDidCatch&&(a.componentDidCatch(t,o||{}),i=1),i&&8&a.__g)return void(a.__g|=2)}catch(l){t=l}}throw We=0,t}},zt=0,Eo=function(t){return t!=null&&t.constructor===De},ne.prototype.setState=function(t,e){var n=this.__s;n&&n!=this.state||(n=this.__s=de({},this.state)),typeof t=="function"&&(t=t(de({},n),this.props)),t&&(de(n,t),this.__v&&(e&&this.__k.push(e),Wt(this)))},ne.prototype.forceUpdate=function(t){this.__v&&(this.__g|=4,t&&this.__h.push(t),Wt(this))},ne.prototype.render=Le,re=[],We=0,Vt=function(t,e){return t.__v.__b-e.__v.__b},Be=Symbol(),Qt=/(PointerCapture)$|Capture$/i,_t=0,$t={},To=0;var on=function(t,e,n,o){var a;e[0]=0;for(var s=1;s<e.length;s++){var i=e[s++],l=e[s]?(e[0]|=i?1:2,n[e[s++]]):e[++s];i===3?o[0]=l:i===4?o[1]=Object.assign(o[1]||{},l):i===5?(o[1]=o[1]||{})[e[++s]]=l:i===6?o[1][e[++s]]+=l+"":i?(a=t.apply(l,on(t,l,n,["",null])),o.push(a),l[0]?e[0]|=2:(e[s-2]=0,e[s]=a)):o.push(l)}return o},nn=new Map;function sn(t){var e=nn.get(this);return e||(e=new Map,nn.set(this,e)),(e=on(this,e.get(t)||(e.set(t,e=(function(n){for(var o,a,s=1,i="",l="",p=[0],f=function(d){s===1&&(d||(i=i.replace(/^\s*\n\s*|\s*\n\s*$/g,"")))?p.push(0,d,i):s===3&&(d||i)?(p.push(3,d,i),s=2):s===2&&i==="..."&&d?p.push(4,d,0):s===2&&i&&!d?p.push(5,0,!0,i):s>=5&&((i||!d&&s===5)&&(p.push(s,0,i,a),s=6),d&&(p.push(s,d,0,a),s=6)),i=""},c=0;c<n.length;c++){c&&(s===1&&f(),f(c));for(var m=0;m<n[c].length;m++)o=n[c][m],s===1?o==="<"?(f(),p=[p],s=3):i+=o:s===4?i==="--"&&o===">"?(s=1,i=""):i=o+i[0]:l?o===l?l="":i+=o:o==='"'||o==="'"?l=o:o===">"?(f(),s=1):s&&(o==="="?(s=5,a=i,i=""):o==="/"&&(s<5||n[c][m+1]===">")?(f(),s===3&&(p=p[0]),s=p,(p=p[0]).push(2,0,s),s=0):o===" "||o==="	"||o===`
`||o==="\r"?(f(),s=2):i+=o),s===3&&i==="!--"&&(s=4,p=p[0])}return f(),p})(t)),e),arguments,[])).length>1?e:e[0]}var me,I,kt,rn,St=Object.is,Ve=0,hn=[],Ct=[],P=M,an=P.__b,ln=P.__r,cn=P.diffed,un=P.__c,pn=P.unmount,fn=P.__;function Pe(t,e){P.__h&&P.__h(I,t,Ve||e),Ve=0;var n=I.__H||(I.__H={__:[],__h:[]});return t>=n.__.length&&n.__.push({}),n.__[t]}function y(t){return Ve=1,Io($n,t)}function Io(t,e,n){var o=Pe(me++,2);if(o.t=t,!o.__c&&(o.__=[n?n(e):$n(void 0,e),function(s){var i=(o.__N||o.__)[0],l=o.t(i,s);St(i,l)||(o.__N=[l,o.__[1]],o.__c.setState({}))}],o.__c=I,!I.__f)){I.__f=!0;var a=I.shouldComponentUpdate;I.shouldComponentUpdate=function(s,i,l){var p=this.__H;if(!p)return!0;var f=!1,c=this.props!=s;if(p.__.some(function(d){d.__N&&(f=!0,St(d.__[0],d.__N[0])||(c=!0))}),a){var m=a.call(this,s,i,l);return f?m||c:m}return!f||c}}return o.__}function j(t,e){var n=Pe(me++,3);!P.__s&&Tt(n.__H,e)&&(n.__P=!0,n.__=t,n.u=e,I.__H.__h.push(n))}function Q(t,e){var n=Pe(me++,4);!P.__s&&Tt(n.__H,e)&&(n.__P=!1,n.__=t,n.u=e,I.__h.push(n))}function A(t){return Ve=5,Qe(function(){return{current:t}},[])}function Qe(t,e){var n=Pe(me++,7);return Tt(n.__H,e)&&(n.__=t(),n.__H=e),n.__}function he(){var t=Pe(me++,11);if(!t.__){for(var e=I.__v;!e.__m&&e.__;)e=e.__;var n=e.__m||(e.__m=[0,0]);t.__="P"+n[0]+"-"+n[1]++}return t.__}function Oo(){var t;do{for(;t=Ct.shift();)try{Re(t)}catch(n){P.__e(n,{__:(t=t.__P)&&t.__v})}for(;t=hn.shift();){var e=t.__H;if(t.__P&&e)try{e.__h.some(Re),e.__h.some(Et),e.__h=[]}catch(n){e.__h=[],P.__e(n,t.__v)}}}while(Ct.length)}P.__b=function(t){I=null,an&&an(t)},P.__=function(t,e){t&&e.__k&&e.__k.__m&&(t.__m=e.__k.__m),fn&&fn(t,e)},P.__r=function(t){ln&&ln(t),me=0;var e=(I=t.__c).__H;e&&(kt==I?I.__h=[]:(e.__h.some(Re),e.__h.some(Et),me=0),e.__h=[],e.__.some(function(n){n.__N&&(n.__=n.__N),n.u=n.__N=void 0})),kt=I},P.diffed=function(t){cn&&cn(t);var e=t.__c;e&&e.__H&&(e.__H.__h.length&&mn(hn.push(e)),e.__H.__.some(function(n){n.u&&(n.__H=n.u)})),kt=I=null},P.__c=function(t,e){e.some(function(n){try{n.__h.some(Re),n.__h=n.__h.filter(function(o){return!o.__||Et(o)})}catch(o){n.__h=[function(){throw o}]}}),un&&un(t,e)},P.unmount=function(t){pn&&pn(t);var e,n,o=t.__c;o&&o.__H&&(o.__H.__.some(function(a){try{if(a.__P&&a.__c){if(n===void 0){for(n=t.__;n&&(!n.__c||!n.__c.__P);)n=n.__;n=n&&n.__c}a.__P=n,mn(Ct.push(a))}else Re(a)}catch(s){e=s}}),o.__H=void 0,e&&P.__e(e,o.__v))};var dn=typeof requestAnimationFrame=="function";function qo(t){var e,n=function(){clearTimeout(o),dn&&cancelAnimationFrame(e),setTimeout(t)},o=setTimeout(n,35);dn&&(e=requestAnimationFrame(n))}function mn(t){t!=1&&rn==P.requestAnimationFrame||((rn=P.requestAnimationFrame)||qo)(Oo)}function Re(t){var e=I,n=t.__c;typeof n=="function"&&(t.__c=void 0,n()),I=e}function Et(t){var e=I;t.__c=t.__(),I=e}function Tt(t,e){return!t||t.length!=e.length||e.some(function(n,o){return!St(n,t[o])})}function $n(t,e){return typeof e=="function"?e(t):e}var r=sn.bind(function(...e){return this[0]=3,Yt(...e)});function R(t){let e=new Set;return{get:()=>t,set(n){if(!Object.is(n,t)){t=n;for(let o of[...e])o(t)}},subscribe(n){return e.add(n),()=>e.delete(n)}}}function E(t,e=n=>n){let n=e(t.get()),[,o]=y(0);return Q(()=>{let a=e(t.get()),s=()=>{let i=e(t.get());Object.is(i,a)||(a=i,o(l=>l+1))};return Object.is(a,n)||o(i=>i+1),t.subscribe(s)},[t]),n}var Fo=new Set;function _n(t){for(let e of[...Fo])e(t)}var gn="mimir-console.";function Ye(t){try{return localStorage.getItem(gn+t)}catch{return null}}function Xe(t,e){try{localStorage.setItem(gn+t,e)}catch{}}var Ge=["auto","light","dark"],yn=Ye("theme"),ve=R(Ge.includes(yn)?yn:"auto");function vn(t){document.documentElement.dataset.theme=t}vn(ve.get());ve.subscribe(t=>{Xe("theme",t),vn(t)});var Je=()=>ve.set(Ge[(Ge.indexOf(ve.get())+1)%Ge.length]);var Ze=class extends Error{constructor(e,n,o){super(o),this.status=e,this.code=n}},ae=R(!1),Ho=6e4;async function bn(t,e){let n;try{n=await fetch(`api/${t}`,{cache:"no-store",credentials:"same-origin",redirect:"error",signal:AbortSignal.timeout(Ho),...e})}catch(i){let l=i.name==="TimeoutError"?"The console did not answer in time.":"The console cannot be reached.";throw new Ze(0,"NETWORK",l)}if(n.ok)return n.status===204?null:n.json();let o=await n.json().catch(()=>null),{code:a="INTERNAL",message:s=`The console answered with status ${n.status}.`}=o?.error??{};throw n.status===401&&a==="LOGIN_REQUIRED"&&ae.set(!0),new Ze(n.status,a,s)}function Uo(t={}){let e=Object.entries(t).filter(([,n])=>n!=null&&n!=="");return e.length?`?${new URLSearchParams(e)}`:""}var $e=(t,e)=>bn(t+Uo(e),{}),B=(t,e={})=>bn(t,{method:"POST",headers:{"Content-Type":"application/json","X-Mimir-Console":"1"},body:JSON.stringify(e)}),le=encodeURIComponent;var Ie=R("connecting"),Mt=2e4,Bo=250,Ko=2e3;function xn({load:t,calls:e,on:n}){let o=[],a=!1,s=!1,i,l=()=>{if(a=!1,!s||!o.length)return;let m=o;o=[],e(m)},p=()=>{if(o.length>Mt&&s)return l();o.length>Mt&&o.splice(0,o.length-Mt),!a&&(a=!0,document.hidden?setTimeout(l,Bo):requestAnimationFrame(l))};document.addEventListener("visibilitychange",l);let f=()=>{i=new EventSource("api/events"),i.onopen=async()=>{s=!1;try{await t(m=>{o=o.filter(d=>!(d.sequence<=m))}),s=!0,Ie.set("live"),p()}catch{i.close(),c()}},i.onerror=()=>{if(ae.get())return i.close();Ie.set("lost"),i.readyState===EventSource.CLOSED&&c()},i.addEventListener("call",({data:m,lastEventId:d})=>{let u=Nt(m);if(Array.isArray(u)){for(let h of u)h.sequence=Number(d),o.push(h);p()}});for(let[m,d]of Object.entries(n))i.addEventListener(m,({data:u})=>{let h=Nt(u);h!==void 0&&d(h)});i.addEventListener("changed",({data:m})=>_n(Nt(m)?.what))},c=()=>{Ie.set("lost"),setTimeout(async()=>{await $e("state").catch(()=>{}),ae.get()||f()},Ko)};f()}function Nt(t){try{return JSON.parse(t)}catch{return}}var Wo=new Intl.NumberFormat("en-US"),Z=t=>Number.isFinite(t)?Wo.format(t):"–",N=(t,e,n=`${e}s`)=>`${Z(t)} ${t===1?e:n}`;function wn(t){if(!Number.isFinite(t))return"–";for(let[e,n]of[[1e12,"T"],[1e9,"G"],[1e6,"M"],[1e4,"k"]])if(t>=e)return`${kn(t/(n==="k"?1e3:e))} ${n}`;return Z(Math.round(t))}var kn=t=>t>=100?t.toFixed(0):t.toFixed(1).replace(/\.0$/,"");function _e(t){if(!Number.isFinite(t))return"–";if(t<1024)return`${Z(t)} B`;for(let[e,n]of[[1024**3,"GiB"],[1024**2,"MiB"],[1024,"KiB"]])if(t>=e)return`${kn(t/e)} ${n}`}function ce(t){if(!Number.isFinite(t))return"–";if(t<1)return"<1 ms";if(t<1e3)return`${Math.round(t)} ms`;if(t<6e4)return`${(t/1e3).toFixed(1)} s`;let e=Math.floor(t/6e4);return e<60?`${e} min ${Math.floor(t%6e4/1e3)} s`:e<2880?`${Math.floor(e/60)} h ${e%60} min`:`${Math.floor(e/1440)} days`}var G=t=>typeof t=="number"?t:Date.parse(t),Oe=t=>String(t).padStart(2,"0");function be(t){let e=new Date(G(t));return Number.isNaN(e.getTime())?"–":`${Oe(e.getHours())}:${Oe(e.getMinutes())}:${Oe(e.getSeconds())}`}function jo(t){let e=new Date(G(t));return Number.isNaN(e.getTime())?"–":`${e.getFullYear()}-${Oe(e.getMonth()+1)}-${Oe(e.getDate())}`}var Sn=t=>`${jo(t)} ${be(t)}`;function xe(t,e=Date.now()){let n=e-G(t);return Number.isFinite(n)?n<5e3?"just now":n<6e4?`${Math.floor(n/1e3)} s ago`:n<36e5?`${Math.floor(n/6e4)} min ago`:n<48*36e5?`${Math.floor(n/36e5)} h ago`:`${Math.floor(n/864e5)} days ago`:"–"}var zo=new RegExp("[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u00ad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\u3164\\ufe00-\\ufe0f\\ufeff\\uffa0\\ufff0-\\ufffb\\u{e0000}-\\u{e0fff}]","gu");function ee(t){return(typeof t=="string"?t:t==null?"":JSON.stringify(t)).replaceAll(`\r
`,`
`).replace(zo,n=>`\\u{${n.codePointAt(0).toString(16)}}`)}function F(t,e=200){let n=ee(String(t??"").slice(0,e*4)).replace(/\s+/g," ").trim();return n.length>e?`${n.slice(0,e-1)}…`:n}var At=R(""),J=t=>At.set(t),et=R("Notification"in window?Notification.permission:"unsupported");async function Cn(){et.set(await Notification.requestPermission())}function En(t,e){document.title=`${t?`(${t}) `:""}mimir console${e?` – ${F(e,40)}`:""}`}function Tn(t){if(et.get()!=="granted"||!document.hidden)return;let{tool:e,risk:n}=t.card??{},o=new Notification("mimir: a call waits for your answer",{body:`Tool: ${F(e,60)}
Risk: ${F(n,12)}`,tag:t.id});o.onclick=()=>{window.focus(),location.hash=`#/questions/${encodeURIComponent(t.id)}`,o.close()}}var tt=["live","questions","record","tools","policy"];function nt(){let[t,e=""]=location.hash.replace(/^#\/?/,"").split("?"),n=t.split("/").map(Mn).filter(Boolean);return{screen:tt.includes(n[0])?n[0]:"live",parts:n.slice(1),query:Object.fromEntries(new URLSearchParams(e))}}function Mn(t){try{return decodeURIComponent(t)}catch{return t}}var oe=R(nt());window.addEventListener("hashchange",()=>oe.set(nt()));function D(t,e=[],n={}){let o=Object.entries(n).filter(([,s])=>s),a=o.length?`?${new URLSearchParams(o)}`:"";return`#/${[t,...e.map(encodeURIComponent)].join("/")}${a}`}function ue(t,e=!1){location.hash!==t&&(history[e?"replaceState":"pushState"](null,"",t),oe.set(nt()))}function Nn(){let t=/^#key=(.+)$/.exec(location.hash)?.[1];return t?(history.replaceState(null,"","#/live"),oe.set(nt()),Mn(t)):null}var ot=class{chunks=[];length=0;dropped=0;nextKey=0;push(e,n){if(typeof n!="string"||!n)return;let o=n.slice(-65536);this.dropped+=n.length-o.length;let a=this.chunks.at(-1);for(a&&a.stream===e&&!(a.text.length>2048&&a.text.endsWith(`
`))?a.text+=o:this.chunks.push({key:this.nextKey++,stream:e,text:o}),this.length+=o.length;this.length>65536;)this.dropFront()}dropFront(){let[e]=this.chunks,n=this.length-65536,o=this.chunks.length>1?e.text.length:n;e.text=e.text.slice(o),e.text||this.chunks.shift(),this.length-=o,this.dropped+=o}};var An=2e3,rt=200,Vo=2e3,Qo=12,st=class{calls=new Map;dropped=0;load({calls:e=[],dropped:n=0}){this.calls.clear(),this.dropped=n;for(let{output:o,effects:a,decided:s,finished:i,progress:l,state:p,...f}of e.slice(-An)){let c=this.add(f);c.decided=s??null,c.progress=l??null,c.state=p??"running";for(let m of a??[])Ln(c,m);c.output.push("stdout",o),i&&Dt(c,i)}}apply(e){if(e.kind==="started"){this.calls.has(e.id)||this.add(e);return}let n=this.calls.get(e.id);if(n)switch(e.kind){case"decided":n.decided=e,n.state!=="finished"&&(n.state=e.state??"running");break;case"effect":Ln(n,e);break;case"progress":n.progress=e;break;case"output":n.output.push(e.stream,e.text);break;case"finished":Dt(n,e);break;case"lost":n.state!=="finished"&&Dt(n,{at:null,ok:!1,lost:!0});break}}add(e){let n={...e,state:"running",decided:null,effects:[],effectCount:0,progress:null,output:new ot,finished:null,searched:Xo(e)};return this.calls.set(n.id,n),this.calls.size>An&&this.dropOne(),n}dropOne(){let e;for(let n of this.calls.values())if(e??=n.id,n.state==="finished"){e=n.id;break}this.calls.delete(e),this.dropped++}counts(){let e={all:this.calls.size,waiting:0,running:0,finished:0,failed:0};for(let n of this.calls.values())e[n.state]++,Rn(n)&&e.failed++;return e}rows({text:e,state:n,collapsed:o}){let a=e.toLowerCase().split(/\s+/).filter(Boolean);if(a.length||n!=="all"){let f=[];for(let c of this.calls.values())Yo(c,n)&&a.every(m=>c.searched.includes(m))&&f.push(Dn(c,0,0));return f.reverse()}let s=new Map,i=[];for(let f of this.calls.values())!f.parent||f.parent===f.id||!this.calls.has(f.parent)?i.push(f):s.has(f.parent)?s.get(f.parent).push(f):s.set(f.parent,[f]);let l=[],p=(f,c)=>{let m=c<Qo?s.get(f.id)??[]:[];if(l.push(Dn(f,c,m.length,o.has(f.id))),!o.has(f.id))for(let d of m)p(d,c+1)};for(let f of i.reverse())p(f,0);return l}},Dn=(t,e,n,o=!1)=>({id:t.id,call:t,depth:e,nested:n,isCollapsed:o});function Yo(t,e){return e==="all"?!0:e==="active"?t.state!=="finished":e==="failed"?Rn(t):t.state===e}function Xo({tool:t,session:e,user:n,client:o,process:a,source:s,arguments:i}){return[t,e,n,o,a?.name,s,String(i??"").slice(0,Vo)].filter(Boolean).join(" ").toLowerCase()}function Ln(t,e){t.effectCount++,t.effects.push(e),t.effects.length>rt&&t.effects.shift()}function Dt(t,e){t.state="finished",t.finished=e}var Rn=t=>t.finished!==null&&t.finished.ok===!1,Go=new Set(["POLICY_DENIED","APPROVAL_DENIED","PERMISSION_DENIED"]);function we({state:t,finished:e}){return t==="waiting"?{word:"waiting",tone:"warn"}:t==="running"?{word:"running",tone:"accent"}:e?.lost?{word:"lost",tone:"bad"}:e?.ok?{word:"done",tone:"good"}:Go.has(e?.code)?{word:"refused",tone:"bad"}:e?.code==="CANCELLED"?{word:"cancelled",tone:"faint"}:{word:"failed",tone:"bad"}}var U=R(null),Y=new st,ke=R(0),z=R([]),it=R(new Map),Jo=200,Lt=()=>ke.set(ke.get()+1);async function qe(){U.set(await $e("state"))}async function Pn(t){let[e,n,o]=await Promise.all([$e("state"),$e("calls"),$e("questions")]);U.set(e),Y.load(n),Number.isFinite(Number(n.lastEvent))&&t(Number(n.lastEvent)),Lt(),z.set(o.questions??[])}function In(t){if(!t?.id)return;let e=z.get(),n=e.findIndex(({id:o})=>o===t.id);return z.set(n<0?[...e,t]:e.with(n,t)),n<0}function Se(t){if(!t?.id)return;let e=new Map(it.get());e.set(t.id,t),e.size>Jo&&e.delete(e.keys().next().value),it.set(e),z.set(z.get().filter(({id:n})=>n!==t.id))}var at=t=>t?.role==="approver"||t?.role==="admin",Ce=t=>t?.role==="admin";var On=R(0);function qn(t){Array.isArray(t)&&On.set(On.get()+t.length)}var lt=[],Fe=R(Ye("shortcuts")!=="off");Fe.subscribe(t=>Xe("shortcuts",t?"on":"off"));function V(t,e=!1){let n=A(null);n.current??={keys:t,exclusive:e},n.current.keys=t,j(()=>(lt.push(n.current),()=>lt.splice(lt.indexOf(n.current),1)),[])}var es=t=>t.closest?.("input:not([type=checkbox]):not([type=radio]), textarea, select, [contenteditable]")!==null,ts=(t,e)=>(e==="Enter"||e===" ")&&t.closest?.("a, button, summary, input, [role=tab]")!==null;document.addEventListener("keydown",t=>{if(t.defaultPrevented||t.ctrlKey||t.metaKey||t.altKey||t.isComposing)return;let{key:e,target:n}=t;if(!ts(n,e)&&!(e!=="Escape"&&(es(n)||e.length===1&&!Fe.get())))for(let o of[...lt].reverse()){let a=o.keys[e];if(a&&!(t.repeat&&!a.repeats)){t.preventDefault(),a(t);return}if(a||o.exclusive)return}});function ct(t){let e=n=>t(n);return e.repeats=!0,e}var He=18,ns=7.4,Fn=420,Hn=12,Un=t=>t.replaceAll(`\r
`,`
`).split(`
`).map(e=>({text:e}));function os(t,e){let n=[];return t.forEach(({text:o,type:a},s)=>{for(let i=0;i===0||i<o.length;i+=e)n.push({line:s,type:a,start:i,text:o})}),n}function ut({lines:t,label:e}){let n=A(null),[o,a]=y(0),[s,i]=y(0),l=A({lines:null,columns:0,pieces:[]});Q(()=>{let m=()=>a(Math.max(20,Math.floor((n.current.clientWidth-76)/ns)));m();let d=new ResizeObserver(m);return d.observe(n.current),()=>d.disconnect()},[]),(l.current.lines?.length!==t.length||l.current.columns!==o)&&(l.current={lines:t,columns:o,pieces:o?os(t,o):[]});let{pieces:p}=l.current,f=Math.max(0,Math.floor(s/He)-Hn),c=p.slice(f,f+Math.ceil(Fn/He)+2*Hn);return r`
<div
class="foreign line-view"
ref=${n}
tabindex="0"
role="group"
aria-label=${e}
translate="no"
style=${{height:`${Math.min(Fn,Math.max(1,p.length)*He+16)}px`}}
onScroll=${m=>i(m.currentTarget.scrollTop)}
>
<div class="lines" style=${{height:`${p.length*He}px`}}>
<div class="window" style=${{transform:`translateY(${f*He}px)`}}>
${c.map(({line:m,type:d,start:u,text:h},g)=>r`
<div class=${`line ${d??""}`} key=${f+g}>
<span class="number" aria-hidden="true">${u===0?m+1:"↪"}</span>
<span class="text">${ee(h.slice(u,u+o))}</span>
</div>
`)}
</div>
</div>
</div>
`}var Pt=2400,It=24,ss=4e4;function v({text:t,max:e=120,strong:n=!1}){let o=F(t,e);return r`<code class=${n?"name strong":"name"} translate="no">${o||"(empty)"}</code>`}function Ee({text:t,label:e,truncated:n=!1,collapse:o=!0}){let[a,s]=y(!o),i=String(t??""),l=i.length>Pt||rs(i)>It;if(!i)return r`<p class="faint">Empty.</p>`;let p;return l?a?i.length>ss?p=r`<${ut} lines=${Un(i)} label=${e} />`:p=r`<${Rt} text=${i} label=${e} />`:p=r`<${Rt} text=${is(i)} label=${`${e}, beginning`} cut />`:p=r`<${Rt} text=${i} label=${e} />`,r`
<div class="framed">
${p}
${l&&r`<button class="link" aria-expanded=${a} onClick=${()=>s(!a)}>
${a?"Show less":`Show all (${_e(i.length)})`}
</button>`}
${n&&r`<p class="faint small">The server has cut this text.</p>`}
</div>
`}function Rt({text:t,label:e,cut:n=!1}){return r`<pre class=${n?"foreign cut":"foreign"} tabindex="0" role="group" aria-label=${e} translate="no">${ee(t)}</pre>`}function rs(t){let e=1;for(let n=t.indexOf(`
`);n>=0&&e<=It;n=t.indexOf(`
`,n+1))e++;return e}function is(t){let e=0;for(let n=0;n<It;n++){let o=t.indexOf(`
`,e);if(o<0||o>Pt)return t.slice(0,Pt);e=o+1}return t.slice(0,e-1)}function X({texts:t}){return r`<ul class="names">${t.map((e,n)=>r`<li key=${n}><${v} text=${e} max=${300} /></li>`)}</ul>`}var Te=({tone:t="",children:e})=>r`<span class=${`tag ${t}`}>${e}</span>`,as={allow:"good",ask:"warn",deny:"bad"},ls={allow:"allowed",ask:"asks",deny:"denied"};function ge({decision:t}){return t?r`<${Te} tone=${as[t]??""}>${ls[t]??String(t).slice(0,20)}<//>`:null}var Bn={low:"faint",medium:"accent",high:"warn",critical:"bad"};function Me({risk:t}){return t?r`<${Te} tone=${Bn[t]??""}>${Bn[t]?`${t} risk`:"risk unknown"}<//>`:null}function se({error:t,onRetry:e}){return t?r`
<p class="message bad" role="alert">
${t.message} ${e&&r`<button class="link" onClick=${e}>Try again</button>`}
</p>
`:null}var Ne=({title:t,children:e})=>r`<div class="empty"><h2>${t}</h2><p>${e}</p></div>`,pt=({what:t})=>r`<p class="loading faint" role="status">Loading ${t}…</p>`;function Kn({label:t,isOn:e,isDisabled:n,onChange:o}){return r`
<button class="switch" role="switch" aria-checked=${e} aria-label=${t} disabled=${n} onClick=${()=>o(!e)}>
<span class="knob"></span>
</button>
`}function ft({facts:t}){let e=t.filter(([,n])=>n!=null&&n!=="");return r`<dl class="facts">${e.map(([n,o])=>r`<div key=${n}><dt>${n}</dt><dd>${o}</dd></div>`)}</dl>`}var cs={live:"M2 9h3l2-5 4 10 2-5h3",questions:"M6.5 6.5a2.5 2.5 0 1 1 3.6 2.2c-.8.4-1.1.9-1.1 1.8M9 13.4v.1M9 1.5a7.5 7.5 0 1 1 0 15 7.5 7.5 0 0 1 0-15z",record:"M4 2.5h10v13H4zM6.5 6h5M6.5 9h5M6.5 12h3",tools:"M3 3h5v5H3zM10 3h5v5h-5zM3 10h5v5H3zM12.5 10v5M10 12.5h5",policy:"M9 1.8 15 4v5c0 3.6-2.6 6-6 7.2C5.600 15 3 12.600 3 9V4zM6.500 9l1.800 1.800L11.800 7.200",stop:"M6 2h6l4 4v6l-4 4H6l-4-4V6z",close:"M4 4l10 10M14 4 4 14",back:"M11 3.500 5.500 9l5.500 5.500",theme:"M9 2a7 7 0 1 0 0 14zM9 2a7 7 0 0 1 0 14",help:"M6.5 6.5a2.5 2.5 0 1 1 3.6 2.2c-.8.4-1.1.9-1.1 1.8M9 13.4v.1",phone:"M5.500 1.500h7v15h-7zM8.500 14h1",bell:"M4.500 12.500V8a4.500 4.500 0 0 1 9 0v4.500l1 1h-11zM7.500 15.500h3",more:"M4 9h.1M9 9h.1M14 9h.1"},te=({name:t})=>r`
<svg class="icon" viewBox="0 0 18 18" aria-hidden="true" focusable="false"><path d=${cs[t]} /></svg>
`;var Wn=8;function jn({rows:t,rowHeight:e,label:n,role:o,selected:a,onSelect:s,onOpen:i,onNearEnd:l,onKey:p,render:f,rowProps:c}){let m=he(),d=A(null),[u,h]=y({top:0,height:600}),g=A(null);Q(()=>{let b=d.current,w=()=>h(L=>L.height===b.clientHeight?L:{...L,height:b.clientHeight});w();let q=new ResizeObserver(w);return q.observe(b),()=>q.disconnect()},[]),Q(()=>{let b=d.current;if(g.current&&b.scrollTop>e){let w=t.findIndex(L=>L.id===g.current.id),q=w*e+g.current.offset;w>=0&&Math.abs(q-b.scrollTop)>=1&&(b.scrollTop=q,h(L=>({...L,top:q})))}x()},[t]);let _=t.findIndex(b=>b.id===a);Q(()=>{let b=d.current;if(_<0)return;let w=_*e;w<b.scrollTop?b.scrollTop=w:w+e>b.scrollTop+b.clientHeight&&(b.scrollTop=w+e-b.clientHeight)},[a]);function x(){let b=d.current,w=Math.floor(b.scrollTop/e);g.current=t[w]?{id:t[w].id,offset:b.scrollTop-w*e}:null}function $(b){let{scrollTop:w,scrollHeight:q,clientHeight:L}=b.currentTarget;x(),h(Co=>({...Co,top:w})),w+2*L>q&&l?.()}let S=Math.max(1,Math.floor(u.height/e)-1),C={ArrowDown:1,ArrowUp:-1,PageDown:S,PageUp:-S,Home:-1/0,End:1/0};function K(b){if(b.ctrlKey||b.metaKey||b.altKey)return;let w=C[b.key];if(w!==void 0&&t.length){b.preventDefault();let q=Math.min(t.length-1,Math.max(0,(_<0?w>0?-1:0:_)+w));s(t[q].id)}else b.key==="Enter"&&_>=0?(b.preventDefault(),(i??s)(a)):p?.(b)}let T=Math.max(0,Math.min(t.length-1,Math.floor(u.top/e)-Wn)),W=t.slice(T,T+Math.ceil(u.height/e)+2*Wn),O=_>=T&&_<T+W.length,k=o==="tree"?"treeitem":"option";return r`
<div
class="rows"
ref=${d}
role=${o}
tabindex="0"
aria-label=${n}
aria-activedescendant=${O?`${m}-${a}`:void 0}
onScroll=${$}
onKeyDown=${K}
>
<div role="presentation" class="rows-space" style=${{height:`${t.length*e}px`}}>
${W.map((b,w)=>r`
<div
key=${b.id}
id=${`${m}-${b.id}`}
role=${k}
class=${b.id===a?"row selected":"row"}
aria-selected=${b.id===a}
aria-level=${o==="tree"?(b.depth??0)+1:void 0}
aria-posinset=${o==="listbox"?T+w+1:void 0}
aria-setsize=${o==="listbox"?t.length:void 0}
style=${{transform:`translateY(${(T+w)*e}px)`,height:`${e}px`}}
onClick=${()=>(i??s)(b.id)}
...${c?.(b)}
>
${f(b)}
</div>
`)}
</div>
</div>
`}var Ot=window.matchMedia("(max-width: 760px)"),ye=R(Ot.matches);Ot.addEventListener("change",()=>ye.set(Ot.matches));function pe(){let[t,e]=y(Date.now());return j(()=>{let n=setInterval(()=>e(Date.now()),1e3);return()=>clearInterval(n)},[]),t}function H({title:t,onClose:e,children:n,tone:o="",wide:a=!1}){let s=A(null),i=he();return Q(()=>{let l=document.activeElement;return s.current.showModal(),()=>l?.isConnected&&l.focus?.()},[]),V({Escape:e},!0),r`
<dialog
ref=${s}
class=${`dialog ${o} ${a?"wide":""}`}
aria-labelledby=${i}
onCancel=${l=>{l.preventDefault(),e()}}
onClick=${l=>l.target===s.current&&e()}
>
<div class="dialog-body">
<h2 id=${i}>${t}</h2>
${n}
</div>
</dialog>
`}var us={"team-policy":"the team's policy",enabled:"the switch of the tool","tool-policy":"the lists of tools","tool-approval":"your setting for the tool",commands:"the rules about commands",paths:"the protected files","argument-rule":"a rule about arguments",danger:"a danger pattern",condition:"a condition of the tool",assessor:"the tool's own assessment","tool-default":"the tool's default",trust:"the grant of the plugin",taint:"what the session has read",network:"the rules about hosts",secrets:"the search for secrets"},ps=t=>us[t]??"a rule";function dt({decision:t,reasons:e=[]}){return r`
${t&&r`<p class="decided">The policy <${ge} decision=${t} /></p>`}
<ul class="reasons">
${e.map((n,o)=>r`
<li key=${o}>
<div class="reason-head"><${ge} decision=${n.decision} /> <span>${ps(n.layer)}</span></div>
<${v} text=${n.text} max=${600} />
<div class="small faint">${n.rule&&r`<${v} text=${n.rule} max=${160} />`}${n.source&&r` in <${v} text=${n.source} max=${160} />`}</div>
</li>
`)}
</ul>
${!e.length&&r`<p class="faint">No rule applied.</p>`}
`}function zn({call:t}){let{word:e}=we(t);return`${F(t.tool,80)}, ${e}, ${F(Vn(t),60)}, ${N(t.effectCount,"effect")}`}var Vn=({client:t,user:e,process:n})=>t||e||n?.name||"";function Ft(t,e=Date.now()){return t.finished?t.finished.receipt?.durationMs??G(t.finished.at)-G(t.at):Math.max(0,e-G(t.at))}function Qn({row:t,onToggle:e}){let{call:n,depth:o,nested:a,isCollapsed:s}=t,{word:i,tone:l}=we(n);return r`
<div class="call-row call-columns">
<span class="cell-state"><${Te} tone=${l}>${i}<//></span>
<span class="cell-tool" style=${{paddingLeft:`${Math.min(o,8)*16}px`}}>
${a>0&&r`<span
class=${s?"twist closed":"twist"}
onClick=${p=>{p.stopPropagation(),e(n.id,!s)}}
></span>`}
${o>0&&a===0&&r`<span class="branch"></span>`}
<code class="name strong" translate="no">${F(n.tool,80)}</code>
</span>
<span class="cell-arguments"><span class="inline-foreign" translate="no">${fs(n)}</span></span>
<span class="cell-who"><span class="inline-foreign" translate="no">${F(Vn(n),40)}</span></span>
<span class="cell-effects right">${n.effectCount||""}</span>
<span class="cell-took right">${n.state==="waiting"?"":ce(Ft(n))}</span>
<span class="cell-time right faint">${be(n.at)}</span>
</div>
`}var qt=new WeakMap;function fs(t){if(t.state!=="finished"&&t.progress){let{done:e,total:n,message:o}=t.progress;return`${n?`${Math.floor(100*e/n)} % `:""}${F(o,120)}`}return qt.has(t)||qt.set(t,F(t.arguments,200)),qt.get(t)}var ds={command:"ran",request:"requested",file:"touched",storage:"stored",secret:"used the secret",model:"asked the model"};function Yn({id:t,call:e,onClose:n}){let o=E(U),a=pe(),s=E(z,x=>x.find(({callId:$})=>$===t)),[i,l]=y(!1),[p,f]=y(null),c=e&&e.state!=="finished",m=c&&at(o);V({...m&&{c:()=>l(!0)}});let d=async()=>{l(!1);try{await B(`calls/${le(t)}/cancel`),J("The call is being cancelled.")}catch(x){f(x)}},u=r`
<div class="detail-head">
<button class="icon-button" aria-label="Close" title="Close (Esc)" onClick=${n}><${te} name="back" /></button>
<h2>${e?r`<${v} text=${e.tool} max=${80} strong />`:"Call"}</h2>
${e&&r`<${Te} tone=${we(e).tone}>${we(e).word}<//>`}
<span class="spacer"></span>
${m&&r`<button class="danger-quiet" onClick=${()=>l(!0)}>Cancel call</button>`}
</div>
`;if(!e)return r`
<section class="detail-pane" aria-label="Call">
${u}
<${Ne} title="Not in the live list">This call ended a while ago. <a href=${D("record",["call",t])}>Show it in the record</a>.<//>
</section>
`;let{finished:h}=e,{receipt:g,label:_}=h??{};return r`
<section class="detail-pane" aria-label="Call">
${u}
<div class="detail-body">
<${se} error=${p} />
${s&&r`<p class="message warn">This call waits for an answer. <a class="button primary" href=${D("questions",[s.id])}>Answer</a></p>`}
${h&&!h.ok&&r`
<div class="message bad">
<strong>${h.lost?"The process that ran this call is gone.":h.code}</strong>
${h.message&&r`<${Ee} text=${h.message} label="Error message" />`}
</div>`}
<h3>Arguments</h3>
<${Ee} text=${e.arguments} label="Arguments" truncated=${e.argumentsTruncated} />
${e.progress&&c&&r`<${ms} progress=${e.progress} />`}
${(e.output.length>0||e.state==="running")&&r`<h3>Output</h3><${$s} output=${e.output} />`}
<h3>Effects <span class="faint">${e.effectCount||"none"}</span></h3>
${e.effects.length>0&&r`<${hs} effects=${e.effects} total=${e.effectCount} />`}
<h3>Decision</h3>
${e.decided?r`<${dt} decision=${e.decided.decision} reasons=${e.decided.reasons} />`:r`<p class="faint">Not decided yet.</p>`}
<h3>Facts</h3>
<${ft}
facts=${[["Started",be(e.at)],[c?"Running for":"Took",ce(Ft(e,a))],["Fuel",g?.fuel===void 0?null:wn(g.fuel)],["Peak memory",g?.peakMemory===void 0?null:_e(g.peakMemory)],["In, out",g?`${_e(g.bytesIn)}, ${_e(g.bytesOut)}`:null],["Tokens",g?Z(g.tokens):null],["Result is",_?r`${_.trust}, ${_.dataClass}; from <${v} text=${_.origin} />`:null],["Client",e.client&&r`<${v} text=${e.client} />`],["User",e.user&&r`<${v} text=${e.user} />`],["Session",e.session&&r`<a href=${D("record",[],{session:e.session})}><${v} text=${e.session} /></a>`],["Process",e.process&&r`<${v} text=${`${e.process.name} (${e.process.pid})`} />`],["Tool is from",r`${e.source}${e.location?r` <${v} text=${e.location} max=${200} />`:""}`],["Called by",e.parent&&r`<a href=${D("live",[e.parent])}><${v} text=${e.parent} /></a>`],["Call",r`<a href=${D("record",["call",t])}><${v} text=${t} /></a>`]]}
/>
${h?.undo&&r`<p><a class="button" href=${D("tools",["undo",h.undo])}>Show and undo the change</a></p>`}
</div>
${i&&r`
<${H} title="Cancel this call?" onClose=${()=>l(!1)}>
<p><${v} text=${e.tool} strong /> ends now. Changes that it has made stay. The model is told that a person cancelled the call.</p>
<div class="actions">
<button onClick=${()=>l(!1)}>Let it run</button>
<button class="danger" autofocus onClick=${d}>Cancel call</button>
</div>
<//>
`}
</section>
`}function ms({progress:{done:t,total:e,message:n}}){return r`
<div class="progress">
<progress aria-label="Progress" value=${e?t:void 0} max=${e||void 0}></progress>
${n&&r`<${v} text=${F(n)} />`}
</div>
`}function hs({effects:t,total:e}){return r`
<ol class="effects" tabindex="0" role="list" aria-label="Effects">
${t.map(({at:n,effect:o,subject:a,decision:s},i)=>r`
<li key=${e-t.length+i}>
<span class="faint time">${be(n)}</span>
<span class="verb">${ds[o]??"did"}</span>
<${v} text=${a} max=${300} />
${s&&s!=="allow"&&r`<${ge} decision=${s} />`}
</li>
`)}
</ol>
${e>rt&&r`<p class="faint small">The last ${rt} of ${N(e,"effect")}.</p>`}
`}function $s({output:t}){let e=A(null),n=A(!0);return E(ke),Q(()=>{n.current&&(e.current.scrollTop=e.current.scrollHeight)}),r`
<div class="foreign output" ref=${e} onScroll=${({currentTarget:{scrollTop:a,scrollHeight:s,clientHeight:i}})=>{n.current=a+i>s-24}} tabindex="0" role="log" aria-live="off" aria-label="Output" translate="no">
${t.dropped>0&&r`<div class="faint">(${_e(t.dropped)} before this are not kept)</div>`}
${t.length===0&&r`<div class="faint">(nothing yet)</div>`}
${t.chunks.map(({key:a,stream:s,text:i})=>r`<${Ht} key=${a} stream=${s} text=${i} />`)}
</div>
`}var _s=new Set(["stdout","stderr","log"]),Ht=class extends ne{shouldComponentUpdate({text:e}){return e.length!==this.props.text.length}render({stream:e,text:n}){return r`<div class=${_s.has(e)?`chunk ${e}`:"chunk"}>${ee(n)}</div>`}};var gs=[["all","All","all"],["active","Active",null],["failed","Refused or failed","failed"]];function Xn(){let t=E(ke),{parts:e}=E(oe),n=E(ye),[o,a]=y(""),[s,i]=y("all"),[l,p]=y(()=>new Set),[f,c]=y(!1),m=A(null),d=e[0]??null,u=Qe(()=>({rows:Y.rows({text:o,state:s,collapsed:l}),counts:Y.counts()}),[t,o,s,l]);f?m.current??=u:m.current=null;let{rows:h,counts:g}=m.current??u,_=g.running+g.waiting,x=k=>ue(D("live",[k]),d!==null),$=()=>ue(D("live")),S=h.findIndex(({id:k})=>k===d),C=k=>ct(()=>h.length&&x(h[Math.min(h.length-1,Math.max(0,S+k))].id)),K=(k,b)=>{let w=new Set(l);w[b?"add":"delete"](k),p(w)},T=({key:k})=>{d&&k==="ArrowLeft"&&K(d,!0),d&&k==="ArrowRight"&&K(d,!1)};V({j:C(1),k:C(-1),p:()=>c(!f),...d&&{Escape:$}});let W=d?Y.calls.get(d):null;return r`
<div class=${d?"screen split with-detail":"screen split"}>
${!(n&&d)&&r`
<section class="list-pane" aria-label="Calls">
<div class="toolbar">
<h2 class="visually-hidden">Calls</h2>
<input
data-search
type="search"
class="search"
placeholder="Filter: tool, session, user, arguments"
aria-label="Filter calls"
value=${o}
onInput=${k=>a(k.currentTarget.value)}
onKeyDown=${k=>k.key==="Escape"&&(a(""),k.currentTarget.blur())}
/>
<div class="segments" role="group" aria-label="State">
${gs.map(([k,b,w])=>r`
<button key=${k} aria-pressed=${s===k} onClick=${()=>i(k)}>
${b} <span class="faint">${Z(w?g[w]:_)}</span>
</button>
`)}
</div>
<button aria-pressed=${f} class=${f?"toggled":""} title="Pause the view (p)" onClick=${()=>c(!f)}>
${f?"Resume view":"Pause view"}
</button>
</div>
${g.waiting>0&&r`<p class="message warn slim"><a href=${D("questions")}>${N(g.waiting,"call waits","calls wait")} for an answer</a></p>`}
${f&&r`<p class="message warn slim">The view is paused. Calls go on; ${N(Y.calls.size,"call")} known now.</p>`}
<div class="columns call-columns" aria-hidden="true"><span>State</span><span>Tool</span><span>Arguments</span><span>Who</span><span class="right">Effects</span><span class="right">Took</span><span class="right">Started</span></div>
${h.length?r`
<${jn}
rows=${h}
rowHeight=${n?58:34}
label="Calls, newest first"
role="tree"
selected=${d}
onSelect=${x}
onKey=${T}
render=${k=>r`<${Qn} row=${k} version=${t} onToggle=${K} />`}
rowProps=${k=>({"aria-expanded":k.nested?!k.isCollapsed:void 0,"aria-label":zn(k)})}
/>
`:r`<${Ne} title=${o||s!=="all"?"No call matches":"No calls yet"}>
${o||s!=="all"?"Change the filter to see more.":"Calls of this workspace appear here as agents make them."}
<//>`}
${Y.dropped>0&&r`<p class="footnote faint">${N(Y.dropped,"older call")} not shown; the <a href=${D("record")}>record</a> has all of them.</p>`}
</section>
`}
${d&&r`<${Yn} key=${d} id=${d} call=${W} onClose=${$} />`}
</div>
`}function mt({title:t,onSend:e,onClose:n}){let[o,a]=y("");return r`
<${H} title=${t} onClose=${n}>
<form onSubmit=${i=>{i.preventDefault(),e(o.trim()?{answer:"no",reason:o.trim()}:{answer:"no"})}}>
<label>Reason <span class="faint">(optional; the model reads it)</span>
<input autofocus type="text" maxlength="500" placeholder="Such as: use the staging server" value=${o} onInput=${i=>a(i.currentTarget.value)} />
</label>
<div class="actions">
<button type="button" onClick=${n}>Back</button>
<button type="submit" class="danger">Answer no</button>
</div>
</form>
<//>
`}function Gn({chosen:t,onDone:e}){let[n,o]=y(null),[a,s]=y([]),i=async(p,f)=>{o(null);let c=await Promise.allSettled(p.map(async({id:d,card:u})=>{await B(`questions/${le(d)}/answer`,{fingerprint:u.fingerprint,...f}),Se({id:d,state:"answered",answer:f.answer,by:"you"})})),m=c.flatMap(({reason:d},u)=>d?[{tool:p[u].card.tool,message:d.message}]:[]);J(`${N(c.length-m.length,"answer")} of ${c.length} count.`),s(m),m.length||e()},l=N(t.length,"question");return r`
<div class="several" role="group" aria-label="Answer the selected questions">
<span class="faint">${l} selected</span>
<button onClick=${()=>o({answer:"once",questions:t})}>Yes, once…</button>
<button onClick=${()=>o({answer:"session",questions:t})} disabled=${!t.every(({answers:p})=>p?.includes("session"))}>This session…</button>
<button class="danger-quiet" onClick=${()=>o({answer:"no",questions:t})}>No…</button>
${a.length>0&&r`<div class="message bad" role="alert">${a.map(({tool:p,message:f},c)=>r`<p key=${c}><${v} text=${p} />: this answer did not count. ${f}</p>`)}</div>`}
</div>
${n?.answer==="no"&&r`<${mt} title=${`No to ${N(n.questions.length,"question")}`} onClose=${()=>o(null)} onSend=${p=>i(n.questions,p)} />`}
${n&&n.answer!=="no"&&r`<${ys} ...${n} onClose=${()=>o(null)} onSend=${()=>i(n.questions,{answer:n.answer})} />`}
`}function ys({answer:t,questions:e,onClose:n,onSend:o}){return r`
<${H} title=${`Yes to ${N(e.length,"question")}, ${t==="once"?"once":"for this session"}?`} onClose=${n} wide>
<ul class="matches" tabindex="0" aria-label="Selected questions">
${e.map(({id:a,card:s})=>r`
<li key=${a}>
<${Me} risk=${s.risk} /> <${v} text=${s.tool} strong /> <${v} text=${s.summary} max=${200} />
${t==="session"&&s.always&&r`<div class="small faint">covers <${v} text=${s.always.text} max=${240} /></div>`}
</li>
`)}
</ul>
<div class="actions">
<button onClick=${n} autofocus>Back</button>
<button class="primary" onClick=${o}>Allow ${N(e.length,"call")}</button>
</div>
<//>
`}var Jn=60,vs=400,Ut={add:"+",remove:"−",context:" ",hunk:" "},bs={added:"new file",removed:"deleted",changed:"changed"},xs={added:"good",removed:"bad",changed:"accent"};function Zn({files:t}){return t?.length?r`<div class="diff">${t.map((e,n)=>r`<${ws} key=${`${n} ${e.path}`} file=${e} />`)}</div>`:r`<p class="faint">No file changes.</p>`}function ws({file:t}){let e=t.lines??[],[n,o]=y(!1),a=e.filter(({type:f})=>f==="add").length,s=e.filter(({type:f})=>f==="remove").length,i=e.length>Jn,l=i&&!n?e.slice(0,Jn):e,p=`Changes of ${ee(t.path).slice(0,200)}`;return r`
<section class="file" aria-label=${p}>
<div class="file-head">
<${v} text=${t.path} max=${200} strong />
<span class=${`tag ${xs[t.kind]??""}`}>${bs[t.kind]??"changed"}</span>
<span class="spacer"></span>
<span class="good-text" aria-label=${N(a,"added line")}>+${a}</span>
<span class="bad-text" aria-label=${N(s,"removed line")}>−${s}</span>
</div>
${l.length>vs?r`<${ut} lines=${l.map(({type:f,text:c})=>({type:f,text:`${Ut[f]??" "} ${c??""}`}))} label=${p} />`:r`
<div class="foreign diff-lines" role="group" tabindex="0" aria-label=${p} translate="no">
${l.map(({type:f,text:c},m)=>r`
<div class=${`line ${f in Ut?f:""}`} key=${m}>
<span class="sign">${Ut[f]??" "}</span><span class="text">${ee(c)}</span>
</div>
`)}
</div>
`}
${i&&r`<button class="link" aria-expanded=${n} onClick=${()=>o(!n)}>
${n?"Show less":`Show all ${N(e.length,"line")}`}
</button>`}
${t.truncated&&r`<p class="faint small">More lines follow; the server has cut this diff.</p>`}
</section>
`}var ks=300;function eo({question:t,onSend:e,onClose:n}){let{id:o,card:a={},patterns:s}=t,[i,l]=y((s??[]).join(`
`)),p=i.split(`
`).map(_=>_.trim()).filter(Boolean),f=s&&p.join(`
`)!==s.join(`
`)?{pattern:p}:{},[c,m]=y(null),[d,u]=y(null);j(()=>{let _=!0;m(null),u(null);let x=setTimeout(()=>{B(`questions/${le(o)}/matches`,f).then($=>_&&m($),$=>_&&u($))},f.pattern?ks:0);return()=>{_=!1,clearTimeout(x)}},[i]);let h=_=>{_.preventDefault(),e({answer:"always",...f})},{always:g}=a;return r`
<${H} title="Always allow this?" onClose=${n} wide>
<form onSubmit=${h}>
<p>From now on, calls like this run without a question, until you revoke it:</p>
${g?r`<${X} texts=${[g.text]} />`:r`<p>This answer covers this call only.</p>`}
${g?.grants?.length>0&&r`<h3>It grants</h3><${X} texts=${g.grants} />`}
${g?.withheld?.length>0&&r`<h3>It does not grant</h3><${X} texts=${g.withheld} />`}
${s&&r`
<label>Patterns of commands <span class="faint">(one a line; they can be made narrower)</span>
<textarea class="code" rows=${Math.min(6,s.length+1)} spellcheck="false" autocapitalize="off" value=${i} onInput=${_=>l(_.currentTarget.value)}></textarea>
</label>
`}
<h3>It would also have covered</h3>
<${se} error=${d} />
${!c&&!d&&r`<${pt} what="earlier calls" />`}
${c&&r`<${Ss} matches=${c} />`}
<div class="actions">
<button type="button" autofocus onClick=${n}>Back</button>
<button type="submit" class="primary" disabled=${s&&!p.length}>Always allow</button>
</div>
</form>
<//>
`}function Ss({matches:{checked:t=0,matched:e=[],total:n=e.length,unjudged:o=0}}){return r`
<p>${n?N(n,"call"):"None"} of the last ${Z(t)}${o?`; ${Z(o)} could not be judged, because their arguments are not on record`:""}.</p>
${e.length>0&&r`<ul class="matches" tabindex="0" aria-label="Calls that it would also have covered">
${e.slice(0,100).map(({callId:a,time:s,tool:i,summary:l})=>r`<li key=${a}><span class="faint">${Sn(s)}</span> <${v} text=${i} strong /> <${v} text=${l} max=${160} /></li>`)}
</ul>`}
`}function to(t){let e;try{e=JSON.parse(t)}catch(n){return{fault:`Not valid JSON: ${n.message}`}}return e===null||typeof e!="object"||Array.isArray(e)?{fault:"Arguments are a JSON object: { … }"}:{value:e}}function no({card:t,onSend:e,onClose:n}){let[o,a]=y(t.arguments??"{}"),s=he(),{value:i,fault:l}=to(o),p=!l&&JSON.stringify(i)===JSON.stringify(to(t.arguments??"{}").value);return r`
<${H} title="Run with other arguments" onClose=${n} wide>
<form onSubmit=${c=>{c.preventDefault(),i&&!p&&e({answer:"edit",arguments:i})}}>
<label>Arguments as JSON
<textarea
autofocus
class="code"
rows="14"
spellcheck="false"
autocapitalize="off"
aria-invalid=${!!l}
aria-describedby=${s}
value=${o}
onInput=${c=>a(c.currentTarget.value)}
></textarea>
</label>
<p id=${s} class=${l?"bad-text":"faint"} role="status">${l??(p?"Not changed yet.":"Valid JSON. The edited call passes all checks again.")}</p>
<div class="actions">
<button type="button" onClick=${n}>Back</button>
<button type="submit" class="primary" disabled=${!i||p}>Run with these arguments</button>
</div>
</form>
<//>
`}var Cs=500;function oo({question:t,isDisabled:e,onAnswer:n}){let{card:o={},answers:a=["once","no"]}=t,s=E(ye),[i,l]=y(null),[p,f]=y(!0),[c,m]=y(!1),d=A(null);j(()=>{let T=setTimeout(()=>f(!1),Cs);return()=>clearTimeout(T)},[]);let u=e||p,h=T=>a.includes(T)&&(T!=="edit"||o.editable!==!1),g={once:()=>n({answer:"once"}),session:()=>n({answer:"session"}),always:()=>l("always"),edit:()=>l("edit"),no:()=>l("no")},_=T=>h(T)&&!u&&g[T];V({o:_("once"),s:_("session"),a:_("always"),e:_("edit"),n:_("no")});let x=(T,W,O,k="")=>h(T)&&r`<button class=${`answer ${k}`} disabled=${u} onClick=${g[T]} aria-keyshortcuts=${O}>${W}<kbd aria-hidden="true">${O}</kbd></button>`,$=T=>{l(null),n(T)},S=()=>l(null),C=r`
${x("session","Yes, this session","s")}
${x("always","Yes, always…","a")}
${x("edit","Edit…","e")}
`,K=["session","always","edit"].some(h);return r`
${o.always&&h("session")&&(!s||c)&&r`<p class="coverage small"><span class="faint">“This session” and “always” cover</span> <${v} text=${o.always.text} max=${240} /></p>`}
<div class="answer-bar" role="group" aria-label="Answer" ref=${d} aria-busy=${e}>
${s?r`
${c&&r`<div class="more">${C}</div>`}
${x("no","No…","n","danger-quiet")}
${K&&r`<button class="answer" aria-expanded=${c} onClick=${()=>m(!c)}>${c?"Less":"More…"}</button>`}
${x("once","Yes, once","o","primary")}
`:r`${x("once","Yes, once","o","primary")}${C}<span class="spacer"></span>${x("no","No…","n","danger-quiet")}`}
</div>
${i==="always"&&r`<${eo} question=${t} onSend=${$} onClose=${S} />`}
${i==="edit"&&r`<${no} card=${o} onSend=${$} onClose=${S} />`}
${i==="no"&&r`<${mt} title=${r`No to <${v} text=${o.tool} strong />`} onSend=${$} onClose=${S} />`}
`}function io({question:t,onDone:e,canAnswer:n,position:o,onStep:a}){let{id:s,card:i={},callId:l,session:p,askedAt:f,expiresAt:c,preview:m,commands:d=[],hosts:u=[],secrets:h=[],labels:g}=t,[_,x]=y(null),[$,S]=y(!1),C=A(i.fingerprint),K=C.current!==i.fingerprint,T=async O=>{S(!0),x(null);try{await B(`questions/${le(s)}/answer`,{fingerprint:C.current,...O}),J("Your answer counts."),Se({id:s,state:"answered",answer:O.answer,by:"you"}),e()}catch(k){x(k),S(!1)}},W=(i.caller??"").split(" → ").filter(Boolean);return r`
<article class="card" aria-labelledby=${`title-${s}`}>
<div class="card-scroll" tabindex="-1">
${o&&r`
<div class="pager" role="group" aria-label="Questions">
<button aria-label="Previous question" disabled=${o[0]<=0} onClick=${()=>a(-1)}>‹</button>
<span>${o[0]+1} of ${o[1]}</span>
<button aria-label="Next question" disabled=${o[0]>=o[1]-1} onClick=${()=>a(1)}>›</button>
</div>
`}
<header class="card-head">
<h2 id=${`title-${s}`}>May <${v} text=${i.tool} max=${80} strong /> run?</h2>
<${Me} risk=${i.risk} />
</header>
<p class="summary"><${v} text=${i.summary} max=${400} /></p>
<p class="faint small"><${Es} askedAt=${f} expiresAt=${c} /> by <${v} text=${t.process} max=${60} />${W.length?r`, within ${W.map((O,k)=>r`<${v} key=${k} text=${O} /> `)}`:""}</p>
${i.changes?.length>0&&r`<section class="message warn"><h3>Changed since you granted it</h3><${X} texts=${i.changes} /></section>`}

${(m?.diff?.length>0||m?.note)&&r`<section><h3>What will change</h3>
${m.diff?.length>0&&r`<${Zn} files=${m.diff} />`}
${m.note&&r`<p class="faint">${m.note}</p>`}
</section>`}
${d.length>0&&r`
<section>
<h3>${d.length>1?"Commands, read apart":"Command"}</h3>
<ol class="commands">
${d.map(({text:O,verdict:k,reason:b},w)=>r`
<li key=${w}><${ge} decision=${k} /><div class="grow"><${Ee} text=${O} label=${`Command ${w+1}`} /><div class="small faint">${b&&r`<${v} text=${b} max=${300} />`}</div></div></li>
`)}
</ol>
</section>
`}
${(u.length>0||h.length>0)&&r`<div class="pair">
${u.length>0&&r`<section><h3>Hosts it reaches</h3><${X} texts=${u} /></section>`}
${h.length>0&&r`<section><h3>Secrets it uses</h3><${X} texts=${h} /></section>`}
</div>`}
<section><h3>Exact arguments</h3><${Ee} text=${i.arguments} label="Exact arguments" /></section>
<section>
<h3>Why you are asked</h3>
${g&&r`<${Ts} labels=${g} />`}
<${dt} reasons=${i.reasons} />
</section>
${i.risks?.length>0&&r`<section><h3>What can go wrong</h3><${X} texts=${i.risks} /></section>`}
${i.grants?.length>0&&r`<section><h3>A yes also grants</h3><${X} texts=${i.grants} /></section>`}
${i.proofs?.length>0&&r`<section><h3>Proved by its imports: the plugin</h3><${X} texts=${i.proofs} /></section>`}
<details>
<summary>Where it comes from</summary>
<${ft}
facts=${[["Source",i.source],["File",r`<${v} text=${i.location} max=${300} />`],["sha256",r`<${v} text=${i.digest} max=${80} />`],["Workspace",r`<${v} text=${t.workspace} max=${120} />`],["Session",p&&r`<a href=${D("record",[],{session:p})}><${v} text=${p} /></a>`],["Call",l&&r`<a href=${D("live",[l])}><${v} text=${l} /></a>`]]}
/>
${i.wayOut?.length>0&&r`<h3>Without a question next time</h3><${X} texts=${i.wayOut} />`}
</details>
</div>
<div class="answers">
${_&&r`<div class="message bad" role="alert"><strong>Your answer did not count.</strong> ${_.message}</div>`}
${K&&r`<div class="message warn" role="alert">The question has changed since you read it. <button onClick=${()=>{C.current=i.fingerprint,x(null)}}>I have read it again</button></div>`}
${n?r`<${oo} question=${t} isDisabled=${$||K} onAnswer=${T} />`:r`<p class="message">Your role may look, and not answer.</p>`}
</div>
</article>
`}function Es({askedAt:t,expiresAt:e}){let n=pe(),o=G(e)-n;return r`Asked ${xe(t,n)}${Number.isFinite(o)&&r`, ${o>0?r`open for <span class=${o<3e4?"warn-text":""}>${ce(o)}</span> more`:"expired"}`}`}var so={system:"only mimir’s own text",user:"only text of you and your workspace",verified:"text of verified sources",untrusted:"text of strangers"},ro={public:"public",internal:"internal",sensitive:"sensitive",secret:"secret"};function Ts({labels:{trust:t,dataClass:e,why:n=[]}}){return!so[t]&&!ro[e]&&!n.length?null:r`
<div class=${t==="untrusted"?"message warn":"message"}>
<p>This session has read ${so[t]??"text of unknown origin"}; its data is ${ro[e]??"of unknown class"}.</p>
${n.length>0&&r`<ul class="why" aria-label=${N(n.length,"cause")}>
${n.map(({text:o,callId:a},s)=>r`<li key=${s}><${v} text=${o} max=${300} /> ${a&&r`<a href=${D("record",["call",a])}>Show that call</a>`}</li>`)}
</ul>`}
</div>
`}var Ms={once:"yes, once",beforehand:"yes, given beforehand",inAdvance:"yes, given beforehand",session:"yes, for the session",always:"yes, always",edit:"yes, with edited arguments",no:"no"};function ao({question:t,end:e,left:n,onNext:o}){V({Enter:o,Escape:o});let a=typeof e?.answer=="string"?e.answer:Object.keys(e?.answer??{})[0],s="This question is not open any more.";return e?.state==="expired"&&(s="This question has expired. The call did not run."),e?.state==="answered"&&(s=r`Answered: <strong>${Ms[a]??"answered"}</strong>${e.by?r`, by <${v} text=${e.by} />`:""}.`),r`
<div class="empty" role="status">
${t&&r`<h2><${v} text=${t.card?.tool} strong /></h2>`}
<p>${s}</p>
<button class="primary" onClick=${o}>${n?`Next question (${N(n,"open","open")})`:"Back to the list"}</button>
</div>
`}function lo(){let t=E(z),e=E(it),n=E(U),o=E(ye),{parts:a}=E(oe),[s,i]=y(()=>new Set),l=A(null),p=a[0]??l.current?.id??t[0]?.id??null,f=t.find(({id:$})=>$===p);f&&(l.current=f);let c=t.findIndex(({id:$})=>$===p);j(()=>{let $=new Set([...s].filter(S=>t.some(C=>C.id===S)));$.size!==s.size&&i($)},[t]);let m=$=>ue(D("questions",[$]),!0),d=()=>{l.current=null;let $=t[Math.max(0,c)]??t[0];ue(D("questions",$?[$.id]:[]),!0)},u=$=>ct(()=>t.length&&m(t[Math.min(t.length-1,Math.max(0,c+$))].id)),h=$=>{let S=new Set(s);S.delete($)||S.add($),i(S)},g=at(n);V({j:u(1),k:u(-1),...f&&g&&{x:()=>h(f.id)}});let _=t.filter(({id:$})=>s.has($)),x;return f?x=r`<${io} key=${f.id} question=${f} onDone=${d} canAnswer=${g} position=${t.length>1?[c,t.length]:null} onStep=${$=>u($)()} />`:p&&(e.has(p)||l.current?.id===p||a[0])?x=r`<${ao} question=${l.current?.id===p?l.current:null} end=${e.get(p)} left=${t.length} onNext=${d} />`:x=r`<${As} />`,r`
<div class="screen split questions">
${t.length>0&&!(o&&t.length===1)&&r`
<section class="list-pane question-list" aria-label="Open questions">
<div class="toolbar"><h2>${N(t.length,"open question")}</h2><span class="spacer"></span><${co} /></div>
<ul>
${t.map($=>r`<${Ns} key=${$.id} question=${$} isSelected=${$.id===p} isMarked=${s.has($.id)} canMark=${g&&t.length>1} onMark=${()=>h($.id)} />`)}
</ul>
${_.length>1&&r`<${Gn} chosen=${_} onDone=${()=>i(new Set)} />`}
</section>
`}
<section class="card-pane" aria-label="Question">${x}</section>
</div>
`}function Ns({question:{id:t,card:e={},askedAt:n},isSelected:o,isMarked:a,canMark:s,onMark:i}){let l=pe();return r`
<li class=${o?"question-item selected":"question-item"}>
${s&&r`<input type="checkbox" checked=${a} onChange=${i} aria-label=${`Select the question about ${String(e.tool).slice(0,80)}`} />`}
<a href=${D("questions",[t])} aria-current=${o?"true":void 0}>
<span class="line"><${v} text=${e.tool} max=${60} strong /><span class="spacer"></span><${Me} risk=${e.risk} /></span>
<span class="line small"><span class="inline-foreign grow" translate="no"><${v} text=${e.summary} max=${140} /></span><span class="faint">${xe(n,l)}</span></span>
</a>
</li>
`}function co(){return E(et)!=="default"?null:r`<button class="quiet" onClick=${Cn}><${te} name="bell" />Notify me</button>`}function As(){return r`
<${Ne} title="No open questions">
When a call needs a person, its question appears here, with the facts. It can also be answered in the agent or with <code>mimir approvals</code>.
<//>
<div class="center"><${co} /></div>
`}var uo=()=>r`<p class="loading faint">Not built yet.</p>`;var po=()=>r`<p class="loading faint">Not built yet.</p>`;var fo=()=>r`<p class="loading faint">Not built yet.</p>`;function mo({onClose:t}){let[e,n]=y(null),[o,a]=y(null),s=pe();j(()=>{B("pair").then(n,a)},[]);let i=G(e?.expiresAt)-s;return r`
<${H} title="Pair a phone" onClose=${t}>
<${se} error=${o} />
${!e&&!o&&r`<${pt} what="the code" />`}
${e&&r`
<p>Scan this with a phone in the same network. It works once${i>0?`, for ${ce(i)}`:", and has expired"}. The phone may answer questions; it cannot change settings.</p>
<${Ds} rows=${e.qr??[]} />
<p class="small faint">Or open <code class="name">${e.url}</code></p>
<p class="small faint">The connection is not encrypted: only pair in a network that you trust.</p>
`}
<div class="actions"><button autofocus onClick=${t}>Close</button></div>
<//>
`}var Bt=4;function Ds({rows:t}){let e=t.length+2*Bt,n=t.map((o,a)=>o.map((s,i)=>s?`M${i+Bt} ${a+Bt}h1v1h-1z`:"").join("")).join("");return r`<svg class="qr" viewBox=${`0 0 ${e} ${e}`} role="img" aria-label="QR code of the link below" shape-rendering="crispEdges"><rect width=${e} height=${e} /><path d=${n} /></svg>`}var Ls={connecting:{text:"Connecting",tone:"faint"},live:{text:"Live",tone:"good"},lost:{text:"Reconnecting",tone:"warn"}},ho={auto:"as the system",light:"light",dark:"dark"};function $o({onStop:t,onHelp:e}){let n=E(U),o=E(Ie),a=E(ve),[s,i]=y(!1),{text:l,tone:p}=Ls[o];return r`
<header class="header">
<h1 class="brand">mimir<span class="visually-hidden"> console</span></h1>
${n&&r`<div class="workspace"><${v} text=${n.workspace} max=${60} /></div>`}
<span class=${`connection ${p}`} role="status"><span class="dot"></span><span class="connection-text">${l}</span></span>
<span class="spacer"></span>
${n&&r`<span class="who faint">${n.user?r`<${v} text=${n.user} max=${40} /> `:null}${n.role}</span>`}
${Ce(n)&&n.local&&r`<button class="icon-button" aria-label="Pair a phone" title="Pair a phone" onClick=${()=>i(!0)}><${te} name="phone" /></button>`}
<button class="icon-button" aria-label=${`Colours: ${ho[a]}`} title=${`Colours: ${ho[a]}`} onClick=${Je}><${te} name="theme" /></button>
<button class="icon-button help-button" aria-label="Keys and help" title="Keys and help (?)" onClick=${e}>?</button>
<button class="danger stop-button" onClick=${t} disabled=${!!n?.stop}><${te} name="stop" />${n?.stop?"Stopped":"Stop all"}</button>
${s&&r`<${mo} onClose=${()=>i(!1)} />`}
</header>
`}var Rs=[["Everywhere",[["1 … 5","Live, Questions, Record, Tools, Policy"],["/","search"],["j  k","next, previous"],["Enter","open"],["Esc","back, close"],["!","stop all calls (asks first)"],["t","colours: as the system, light, dark"],["?","this list"]]],["Live",[["p","pause the view; calls go on"],["c","cancel the call that is open (asks first)"],["←  →","close, open nested calls"]]],["Questions",[["o","yes, once"],["s","yes, for this session"],["a","yes, always: shows what it covers, and asks"],["e","edit the arguments"],["n","no, with a reason"],["x","select for answering several at once"]]]];function _o({onClose:t}){let e=E(Fe);return r`
<${H} title="Keys" onClose=${t} wide>
<div class="key-groups">
${Rs.map(([n,o])=>r`
<section key=${n}>
<h3>${n}</h3>
<dl class="keys">${o.map(([a,s])=>r`<div key=${a}><dt><kbd>${a}</kbd></dt><dd>${s}</dd></div>`)}</dl>
</section>
`)}
</div>
<div class="setting">
<${Kn} label="Shortcuts of one key" isOn=${e} onChange=${n=>Fe.set(n)} />
<span>Shortcuts of one key</span>
</div>
<p class="faint small">Text within a frame comes from tools, models, files or servers. Text without a frame is mimir's own.</p>
<div class="actions"><button autofocus onClick=${t}>Close</button></div>
<//>
`}function go(){return r`
<main class="login" aria-labelledby="login-title">
<div class="login-card">
<h1 id="login-title">Open the console again</h1>
<p>This browser is not logged in, or its session has ended. A link works once, within ten minutes.</p>
<p>In the workspace, run</p>
<pre class="command">mimir console</pre>
<p>and open the new link. On a server with logins, <a href="login">log in</a> again. For a phone, use “Pair a phone” on the page of the machine.</p>
</div>
</main>
`}function yo({onClose:t}){let e=E(U),[n,o]=y(""),[a,s]=y(null),[i,l]=y(!1),{running:p,waiting:f}=Y.counts(),c=async m=>{m.preventDefault(),l(!0);try{await B("stop",n.trim()?{reason:n.trim()}:{}),J("Everything is stopped."),await qe().catch(()=>{}),t()}catch(d){s(d),l(!1)}};return e?.stop?r`<${H} title="Everything is stopped already" onClose=${t}><div class="actions"><button autofocus onClick=${t}>Close</button></div><//>`:r`
<${H} title="Stop all calls?" onClose=${t} tone="bad">
<p>
${p+f>0?`${p} running and ${f} waiting calls are cancelled. `:"No call runs now. "}
All new calls of this workspace are refused until somebody starts it again. Changes that calls have made stay.
</p>
<form onSubmit=${c}>
<label>Reason <span class="faint">(optional, shown to everybody and recorded)</span>
<input autofocus type="text" maxlength="500" value=${n} onInput=${m=>o(m.currentTarget.value)} />
</label>
<${se} error=${a} />
${!Ce(e)&&r`<p class="message warn">Your role is ${e?.role??"unknown"}; stopping needs the role admin.</p>`}
<div class="actions">
<button type="button" onClick=${t}>Cancel</button>
<button type="submit" class="danger" disabled=${i||!Ce(e)}>Stop all calls</button>
</div>
</form>
<//>
`}function vo(){let t=E(U),[e,n]=y(!1),[o,a]=y(null);if(!t?.stop)return null;let{by:s,atMs:i,reason:l}=t.stop,p=async()=>{try{await B("start"),J("Calls may run again."),await qe().catch(()=>{})}catch(f){a(f)}n(!1)};return r`
<section class="banner" role="alert" aria-label="Stopped">
<div>
<strong>Everything is stopped.</strong> All calls are refused.
<div class="small">By <${v} text=${s||"unknown"} /> ${xe(i)}${l?r`, because: <${v} text=${l} max=${500} />`:""}</div>
<${se} error=${o} />
</div>
<span class="spacer"></span>
${Ce(t)&&r`<button onClick=${()=>n(!0)}>Start again…</button>`}
${e&&r`
<${H} title="Let calls run again?" onClose=${()=>n(!1)}>
<p>Agents that still work will call tools again at once. Rules and questions apply as before.</p>
<div class="actions">
<button autofocus onClick=${()=>n(!1)}>Cancel</button>
<button class="primary" onClick=${p}>Start again</button>
</div>
<//>
`}
</section>
`}var bo={live:{title:"Live",view:Xn},questions:{title:"Questions",view:lo},record:{title:"Record",view:uo},tools:{title:"Tools",view:po},policy:{title:"Policy",view:fo}};function xo(){let{screen:t}=E(oe),e=E(ae),[n,o]=y(null),a=()=>o(null);if(V({"?":()=>o("help"),"!":()=>o("stop"),t:Je,"/":()=>document.querySelector("main [data-search]")?.focus(),...Object.fromEntries(tt.map((l,p)=>[String(p+1),()=>ue(D(l))]))}),e)return r`<${go} />`;let{title:s,view:i}=bo[t];return r`
<a class="skip" href="#main" onClick=${Ps}>Skip to content</a>
<${$o} onStop=${()=>o("stop")} onHelp=${()=>o("help")} />
<${Is} screen=${t} />
<main id="main" tabindex="-1" aria-label=${s}>
<${vo} />
<${Kt} key=${t}><${i} /><//>
</main>
<${Os} />
${n==="help"&&r`<${_o} onClose=${a} />`}
${n==="stop"&&r`<${yo} onClose=${a} />`}
`}function Ps(t){t.preventDefault(),document.getElementById("main").focus()}function Is({screen:t}){let e=E(z,n=>n.length);return r`
<nav class="navigation" aria-label="Screens">
${tt.map(n=>r`
<a key=${n} href=${D(n)} aria-current=${n===t?"page":void 0}>
<${te} name=${n} />
<span>${bo[n].title}</span>
${n==="questions"&&e>0&&r`<span class="badge" aria-label=${`${e} open`}>${e>99?"99+":e}</span>`}
</a>
`)}
</nav>
`}function Os(){let t=E(At);return r`<div class="visually-hidden" role="status" aria-live="polite">${t}</div>`}var Kt=class extends ne{state={error:null};static getDerivedStateFromError(e){return{error:e}}componentDidCatch(e){console.error(e)}render({children:e},{error:n}){return n?r`
<div class="empty" role="alert">
<h2>This screen has failed</h2>
<p>The other screens and Stop all still work. Reload the page to try again; details are in the browser's console.</p>
<button onClick=${()=>this.setState({error:null})}>Try again</button>
</div>
`:e}};var wo=Nn(),ko=()=>En(z.get().length,U.get()?.workspace);z.subscribe(ko);U.subscribe(ko);var So=document.getElementById("app");So.replaceChildren();wt(r`<${xo} />`,So);qs();async function qs(){wo&&await B("login",{key:wo}).catch(()=>{});try{await qe()}catch{if(ae.get())return}xn({load:Pn,calls(t){for(let e of t)Y.apply(e);Lt()},on:{question(t){In(t)&&(J(`New question: ${F(t.card?.tool,60)}, ${F(t.card?.risk,12)} risk`),Tn(t))},"question-ended":Se,record:qn,stop:t=>U.set({...U.get(),stop:t})}})}})();
